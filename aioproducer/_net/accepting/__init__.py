"""The slow path of a record into the accumulator, alone and in bulk."""
