"""DataFrames into Kafka, measured: this sink, Spark's own connector, and other clients inside the same kind of writer."""
