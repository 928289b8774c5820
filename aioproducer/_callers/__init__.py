"""What a call of a user brings with it: its task, thread and block, and objects of other people's consumers."""
