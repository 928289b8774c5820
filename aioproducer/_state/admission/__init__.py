"""Which calls are accepted, in which order, and which are refused."""
