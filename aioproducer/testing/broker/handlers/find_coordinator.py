"""FindCoordinator: the coordinator of a group or a transactional id.

v0 groups only; v1 key types (0 group, 1 transaction, 2 share group); v3 flexible; v4 many keys at once.
"""

from __future__ import annotations

from aioproducer._wire.error_codes import ErrorCode
from aioproducer._wire.messages.find_coordinator import Coordinator, FindCoordinatorResponse
from aioproducer.testing.broker.call import Call, Handler, Message


def answer(call: Call) -> Message:
    """One broker for each key."""
    if call.version >= 4:
        return FindCoordinatorResponse(
            coordinators=[_find(call, key) for key in call.request.coordinator_keys]
        )
    found = _find(call, call.request.key)
    return FindCoordinatorResponse(
        error_code=found.error_code,
        error_message=found.error_message,
        node_id=found.node_id,
        host=found.host,
        port=found.port,
    )


def _find(call: Call, key: str) -> Coordinator:
    injected = call.plan.error()
    if injected is not None:
        return Coordinator(key, -1, "", -1, injected.code, injected.message)
    node = call.cluster.coordinator(key)
    if node is None:
        return Coordinator(key, -1, "", -1, ErrorCode.COORDINATOR_NOT_AVAILABLE)
    return Coordinator(key, node.id, node.host, node.port)


HANDLER = Handler(10, 0, 6, answer)
