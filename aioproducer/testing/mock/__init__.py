"""The mock: a producer whose brokers are in memory and do what a test says."""
