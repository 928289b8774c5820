"""The producer id and its epoch: who raises it, and whether another producer has taken it over."""
