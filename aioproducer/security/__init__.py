"""Security: secrets, credentials, and the client's side of each SASL mechanism, without I/O."""
