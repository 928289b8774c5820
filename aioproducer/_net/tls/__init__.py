"""TLS contexts from files and texts."""
