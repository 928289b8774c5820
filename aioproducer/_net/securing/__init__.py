"""The security protocol of a producer, made of its settings."""
