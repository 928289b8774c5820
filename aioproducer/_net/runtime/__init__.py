"""The engine, which owns the tasks of a producer, and tasks without a room of their own."""
