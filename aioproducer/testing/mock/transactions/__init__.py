"""The transactions of the mock."""
