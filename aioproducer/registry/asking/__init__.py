"""Questions to a registry over HTTP, and the reading of its answers."""
