"""The context of a user's call: its task, thread and block, and objects of consumers of other libraries."""
