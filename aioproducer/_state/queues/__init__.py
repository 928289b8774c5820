"""The data of the queues: batches, the queue of each partition, and what flushes and gaps say of them."""
