"""The acceptance, order and refusal of calls."""
