"""Transactions, performed: their coordinators, and calls that others may join."""
