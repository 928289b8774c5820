"""Questions that any broker answers: metadata, and whether topics are there."""
