"""The mock of a producer, which needs no broker."""
