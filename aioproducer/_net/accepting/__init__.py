"""The long way of a record into the accumulator, alone and in bulk."""
