"""TLS: its settings, and the meaning of its failures."""
