"""The metrics that a broker asks for: the next request and its time, and the values of a push."""
