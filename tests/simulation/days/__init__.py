"""Lives of days: what happens to a producer between the moments in which it is used."""
