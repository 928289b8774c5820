"""Timers: the next deadline of a task, overdue requests, and waits below a millisecond."""
