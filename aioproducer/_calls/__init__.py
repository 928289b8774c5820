"""The calls of a producer that have a subject of their own: its lifecycle, and its transactions."""
