"""The tasks that are owners of flush reports."""

from __future__ import annotations

from aioproducer._callers.owners import NOTHING, Owner
from aioproducer._core import TaskOwner, follow_task

__all__ = ["TaskOwners"]


class TaskOwners:
    """The tasks that get reports, by their ids. A task that ends leaves no entry behind."""

    def __init__(self) -> None:
        self.entries: dict[int, TaskOwner] = {}

    def of(self, task: object | None) -> Owner | TaskOwner:
        """The owner of a task. The records of a task that has not sent may be any: its children have sent them."""
        if task is None:
            return Owner()
        found = self.entries.get(id(task))
        return follow_task(self.entries, task, NOTHING) if found is None else found
