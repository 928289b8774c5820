"""Conclusions about a cluster that is examined: each finding with the advice that belongs to it."""
