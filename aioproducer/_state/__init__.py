"""Known state and decisions: no I/O, no clock, no randomness; `now` and `rng` are arguments."""
