"""What a person types and sees: numbers, escapes, progress."""
