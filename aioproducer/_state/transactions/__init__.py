"""The states of a transaction, its parts, and the requests and answers about it."""
