"""A pipeline to start from: orders from files and from Kafka, checked, enriched and summed, into topics, exactly once."""
