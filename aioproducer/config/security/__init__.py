"""Settings of security: their kinds, a JAAS string, URLs, and combinations that are refused."""
