"""What is known and what is to be done next: no I/O, no clock, no chance; `now` and `rng` are arguments."""
