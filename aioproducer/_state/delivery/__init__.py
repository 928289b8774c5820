"""The outcome of a batch, and of its records."""
