"""The metrics of producers: their names and kinds, and sums over producers of equal `client_id`."""
