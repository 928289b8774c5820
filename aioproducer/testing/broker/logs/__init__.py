"""What a partition's log holds, and what it remembers of producers and transactions."""
