"""The last committed value of each key in a log that may end in the middle of transactions."""
