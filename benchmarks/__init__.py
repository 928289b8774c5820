"""How fast the producers are, side by side on one machine and one real Kafka."""
