"""Log messages and snapshots of a running producer."""
