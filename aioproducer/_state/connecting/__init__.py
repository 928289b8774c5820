"""How a connection is opened."""
