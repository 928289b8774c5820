"""The metrics that a broker asks for: what is asked and pushed next, and what of a producer it says."""
