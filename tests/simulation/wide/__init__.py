"""Lives under settings that no other world uses, each from one integer."""
