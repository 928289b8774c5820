"""Certainty after UNKNOWN: the verdict about a batch, by the headers of the batches in the log."""
