"""The access to a secured cluster, drawn from the seed: the mechanism, the ends of sessions, the failures of a provider."""

from __future__ import annotations

import asyncio
import random
from typing import Any, Final

import attrs

from aioproducer.testing import unsecured_token
from tests.simulation.loop import SimulatedLoop

USER: Final = "alice"
MECHANISMS: Final = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER", "OAUTHBEARER")
SESSIONS: Final = (None, 0.4, 1.2, 2.5, 10.0, 60.0, 600.0)
TOKENS: Final = (1.5, 5.0, 30.0, 3_600.0)
"""Seconds: the lifetimes of sessions, and of tokens."""
APIS: Final = ("SaslHandshake", "SaslAuthenticate")


class ProviderError(Exception):
    """The failure of a provider of passwords or tokens."""


@attrs.define(eq=False)
class Access:
    """The authentication that the cluster demands, and the behaviour of the client's provider."""

    mechanism: str
    session: float | None
    token: float
    slowness: float
    """Seconds that the provider takes."""
    password: str = "first"
    failing: bool = False
    hanging: bool = False

    def of_the_cluster(self) -> dict[str, Any]:
        """The options of the cluster."""
        return {
            "users": {USER: self.password},
            "mechanisms": (self.mechanism,),
            "session_lifetime": self.session,
        }

    def of_the_client(self, loop: SimulatedLoop) -> dict[str, Any]:
        """The settings of a producer."""

        async def provide() -> str:
            if self.hanging:
                await asyncio.sleep(3_600.0)
            await asyncio.sleep(self.slowness)
            if self.failing:
                raise ProviderError("the provider does not like it")
            if self.mechanism == "OAUTHBEARER":
                return unsecured_token(USER, self.token, now=loop.wall_ms() / 1000)
            return self.password

        settings: dict[str, Any] = {
            "security_protocol": "SASL_PLAINTEXT",
            "allow_plaintext_credentials": True,
            "sasl_mechanism": self.mechanism,
        }
        if self.mechanism == "OAUTHBEARER":
            return {**settings, "sasl_token_provider": provide}
        return {**settings, "sasl_username": USER, "sasl_password": provide}


def drawn_access(seed: int) -> Access | None:
    """The access of every second life; the others have a cluster without security."""
    if seed % 2:
        return None
    rng = random.Random(f"the access of {seed}")
    return Access(
        rng.choice(MECHANISMS), rng.choice(SESSIONS), rng.choice(TOKENS), rng.choice((0.0, 0.0, 0.01, 0.5))
    )
