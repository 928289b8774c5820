"""Rates of producers, measured side by side on one machine and one real Kafka."""
