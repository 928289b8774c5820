"""Connections that are opened step by step, and questions to a cluster that is examined."""
