"""Lives of days: events between the moments in which a producer is used."""
