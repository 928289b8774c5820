"""Terminal input and output: numbers, escapes, progress."""
