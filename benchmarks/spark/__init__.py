"""DataFrames into Kafka, measured: this sink, Spark's own connector, and other clients inside of the same kind of writer."""
