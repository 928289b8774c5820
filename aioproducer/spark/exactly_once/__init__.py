"""Rows that are written exactly once: in a stream by marks, in a batch by the driver."""
