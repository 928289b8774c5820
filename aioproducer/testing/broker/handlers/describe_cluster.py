"""DescribeCluster: the brokers that are up (KIP-700). v1 endpoint types, of which 1 is brokers; v2 fenced brokers."""

from __future__ import annotations

from aioproducer._wire.messages.describe_cluster import DescribeClusterBroker, DescribeClusterResponse
from aioproducer.testing.broker.call import Call, Handler, Message


def answer(call: Call) -> Message:
    """The running brokers."""
    injected = call.plan.error()
    if injected is not None:
        return DescribeClusterResponse(error_code=injected.code, error_message=injected.message)
    return DescribeClusterResponse(
        cluster_id=call.cluster.cluster_id,
        controller_id=call.cluster.controller_id,
        brokers=[DescribeClusterBroker(node.id, node.host, node.port) for node in call.cluster.live_nodes()],
    )


HANDLER = Handler(60, 0, 2, answer)
