"""Lives under settings that no other world draws, from one integer each."""
