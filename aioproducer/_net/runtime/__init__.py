"""The engine, which owns the tasks of a producer, and the tasks that belong to no other room."""
