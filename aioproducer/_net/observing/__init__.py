"""What the log and snapshots tell of a running producer."""
