"""One client a file, each run in a process of its own."""
