"""Ledgers: compacted topics, created, checked and read back."""
