"""Connections: addresses, dialing, requests and their answers."""
