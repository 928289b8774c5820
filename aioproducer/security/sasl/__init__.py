"""SASL: credentials, the table of mechanisms, and the client's side of each of them, one a file."""
