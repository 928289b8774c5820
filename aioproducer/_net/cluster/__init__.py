"""Requests that any broker answers: metadata, and checks of topics."""
