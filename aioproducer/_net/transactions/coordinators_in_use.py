"""The coordinators that one producer asks: that of its transactional id, and those of groups."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aioproducer._net.connecting.contact import Contact
from aioproducer._net.connecting.idle_connections import IdleConnections
from aioproducer._net.log import log_of
from aioproducer._net.transactions.coordinator import Coordinator, Key

if TYPE_CHECKING:
    from aioproducer._net.cluster.session import Session
    from aioproducer.errors import KafkaError

# The largest number of groups whose coordinators are kept.
MOST_GROUPS = 8


class CoordinatorsInUse:
    """The coordinator of the id has a connection of its own; those of groups, and of former ids, share the others."""

    def __init__(self, session: Session, transactional_id: str) -> None:
        self.session = session
        self.log = log_of(session.config.client_id)
        self.idle = IdleConnections(session.config.connections_max_idle_ms, session.addresses.successor_of)
        self.of_id = Coordinator(session, Key.TRANSACTION, transactional_id, self.idle, Contact(self.log))
        self.groups: dict[str, Coordinator] = {}

    def change_id(self, transactional_id: str) -> None:
        """Another transactional id is used from now on."""
        for each in self.all():
            each.leave()
        contact = self.of_id.contact
        self.of_id = Coordinator(self.session, Key.TRANSACTION, transactional_id, self.idle, contact)

    def of_group(self, group_id: str) -> Coordinator:
        """The coordinator of a group. The coordinator that was made first makes room for a new one."""
        found = self.groups.get(group_id)
        if found is None:
            if len(self.groups) >= MOST_GROUPS:
                self.groups.pop(next(iter(self.groups))).leave()
            found = Coordinator(self.session, Key.GROUP, group_id, self.idle, Contact(self.log))
            self.groups[group_id] = found
        return found

    def all(self) -> tuple[Coordinator, ...]:
        """The coordinator of the transactional id first."""
        return self.of_id, *self.groups.values()

    def trouble(self) -> KafkaError | None:
        """The newest error of a request that has no answer yet."""
        return next((each.trouble for each in self.all() if each.trouble is not None), None)

    def close_idle(self, now: float, limit: float) -> None:
        """Close connections without a request for `limit` seconds."""
        for each in self.all():
            each.close_if_idle(now, limit)
        self.idle.close_old()

    def close(self) -> None:
        """Close all connections."""
        for each in self.all():
            each.forget()
        self.idle.close()
