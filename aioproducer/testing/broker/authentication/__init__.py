"""SASL as a broker speaks it: the server's side of each mechanism, the users, and the sessions of connections."""
