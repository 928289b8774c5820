"""The log of a partition, with its state of producers and transactions."""
