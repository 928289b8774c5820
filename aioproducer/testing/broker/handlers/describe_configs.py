"""DescribeConfigs: the settings of topics, and a few of brokers. A broker describes no other broker.

v1 is the first supported one; v3 adds documentation, which is omitted; v4 is flexible.
"""

from __future__ import annotations

from aioproducer._wire.error_codes import ErrorCode
from aioproducer._wire.messages.describe_configs import (
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
)
from aioproducer.testing.broker.call import Call, Handler, Message
from aioproducer.testing.broker.cluster.topics import DEFAULT_CONFIGS, Topic

TOPIC, BROKER = 2, 4
_DYNAMIC_TOPIC_CONFIG, _STATIC_BROKER_CONFIG, _DEFAULT_CONFIG = 1, 4, 5


def answer(call: Call) -> Message:
    """The settings of each resource."""
    return DescribeConfigsResponse(results=[_one(call, resource) for resource in call.request.resources])


def _one(call: Call, asked: DescribeConfigsResource) -> DescribeConfigsResult:
    kind, name = asked.resource_type, asked.resource_name
    if kind == BROKER:
        return _broker(call, asked)
    topic = call.cluster.topics.get(name) if kind == TOPIC else None
    if topic is None:
        return DescribeConfigsResult(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, None, kind, name)
    wanted = DEFAULT_CONFIGS if asked.configuration_keys is None else asked.configuration_keys
    configs = [_setting(topic, setting) for setting in wanted if setting in DEFAULT_CONFIGS]
    return DescribeConfigsResult(ErrorCode.NONE, None, kind, name, configs)


def _broker(call: Call, asked: DescribeConfigsResource) -> DescribeConfigsResult:
    kind, name, own = asked.resource_type, asked.resource_name, call.node.id
    if name not in ("", str(own)):
        text = f"Unexpected broker id, expected {own} or empty string, but received {name}"
        return DescribeConfigsResult(ErrorCode.INVALID_REQUEST, text, kind, name)
    creates = str(call.cluster.options.auto_create_topics).lower()
    settings = {"auto.create.topics.enable": creates, "node.id": str(own)} if name else {}
    wanted = settings if asked.configuration_keys is None else asked.configuration_keys
    configs = [
        DescribeConfigsResourceResult(
            one, settings[one], read_only=True, config_source=_STATIC_BROKER_CONFIG, documentation=None
        )
        for one in wanted
        if one in settings
    ]
    return DescribeConfigsResult(ErrorCode.NONE, None, kind, name, configs)


def _setting(topic: Topic, name: str) -> DescribeConfigsResourceResult:
    source = _DYNAMIC_TOPIC_CONFIG if name in topic.configs else _DEFAULT_CONFIG
    return DescribeConfigsResourceResult(name, topic.config(name), config_source=source, documentation=None)


HANDLER = Handler(32, 1, 4, answer)
