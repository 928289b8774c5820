"""Lives in which several tasks use one transactional producer at the same moment."""
