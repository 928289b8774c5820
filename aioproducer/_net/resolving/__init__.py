"""Certainty after UNKNOWN: the partition's leader is asked for the batches of its log."""
