"""The producer id and its epoch: who raises it, and whether it is still this producer's."""
