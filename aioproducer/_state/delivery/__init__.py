"""What becomes of a batch, and what its records are told."""
