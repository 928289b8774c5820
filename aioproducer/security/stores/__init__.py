"""Key stores and trust stores, by format."""
