"""Batches on their way to brokers, and the producer id that they need."""
