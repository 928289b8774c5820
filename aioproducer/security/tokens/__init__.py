"""Bearer tokens: requests for them, and their life."""
