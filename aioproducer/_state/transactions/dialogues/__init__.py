"""Dialogues with coordinators: generators that decide each step of a call."""
