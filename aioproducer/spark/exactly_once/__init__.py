"""Rows that are written exactly once: by marks in a stream, by the driver in a batch."""
