"""Avro, JSON and Protobuf: an object to the bytes of its schema."""
