"""Rows of Arrow arrays as JSON, Avro or Protobuf: the bytes of each row, without a Python object for a row."""
