"""Timers: the next deadline of a task, overdue requests, and less than a millisecond."""
