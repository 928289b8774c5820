"""What developing aioproducer needs and using it does not."""
