"""The security of the connections of a producer: none, or that of its settings, whose modules are loaded only then."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aioproducer._deferred import Deferred
from aioproducer._net.connecting.security import PLAINTEXT, SecurityProtocol

if TYPE_CHECKING:
    import asyncio
    from random import Random

    from aioproducer._net.securing import protocol
    from aioproducer.config import ProducerConfig
else:
    protocol = Deferred("aioproducer._net.securing.protocol")

__all__ = ["security_of"]


def security_of(config: ProducerConfig, loop: asyncio.AbstractEventLoop, rng: Random) -> SecurityProtocol:
    """The security protocol of all connections of a producer. Warns of settings that weaken it."""
    if config.security_protocol == "PLAINTEXT":
        return PLAINTEXT
    return protocol.protocol_of(config, loop, rng)
