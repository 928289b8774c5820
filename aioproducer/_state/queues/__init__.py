"""The data of the queues: batches, the queue of each partition, flushes, and gaps."""
