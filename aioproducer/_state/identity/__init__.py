"""The producer id and its epoch: how the epoch is raised, and whether another producer has taken the id over."""
