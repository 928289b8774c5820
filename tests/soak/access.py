"""The settings with which the producers of a soak connect, and the provider of their tokens."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any, Final

import attrs

from aioproducer import SecretFile
from aioproducer.testing import unsecured_token
from tests.soak.secured_nodes import CLIENT_FILE, PASSWORD_FILE, TRUSTED_FILE, USER

_TOKEN_SECONDS: Final = 20.0

PLAIN: Final = ""
SCRAM: Final = "SCRAM-SHA-512"
TOKENS: Final = "OAUTHBEARER"


@attrs.define(eq=False)
class IdentityProvider:
    """Gives tokens, unless it is out of order."""

    given: int = 0
    _works: asyncio.Event = attrs.Factory(asyncio.Event)
    _hangs: bool = False

    def __attrs_post_init__(self) -> None:
        self._works.set()

    async def __call__(self) -> str:
        """A token, or the present failure."""
        if not self._works.is_set():
            if not self._hangs:
                raise ConnectionError("the identity provider is down")
            await self._works.wait()
        self.given += 1
        return unsecured_token(USER, _TOKEN_SECONDS)

    async def fail(self, seconds: float, *, hangs: bool) -> None:
        """Give no token for this time: raise, or do not return."""
        self._hangs = hangs
        self._works.clear()
        try:
            await asyncio.sleep(seconds)
        finally:
            self._works.set()


@attrs.define(eq=False)
class Access:
    """The settings of the lasting producer and of the visitors."""

    servers: str
    folder: Path | None = None
    """The files of the clients; None for a cluster without security."""
    mechanism: str = PLAIN
    """Of the lasting producer; visitors use the other one."""
    provider: IdentityProvider = attrs.Factory(IdentityProvider)

    @property
    def lasting(self) -> dict[str, Any]:
        """The settings of the producer that lives as long as the soak."""
        return self._settings(self.mechanism)

    @property
    def visiting(self) -> dict[str, Any]:
        """The settings of producers that live for a moment."""
        return self._settings(TOKENS if self.mechanism == SCRAM else SCRAM)

    def _settings(self, mechanism: str) -> dict[str, Any]:
        if self.folder is None:
            return {"bootstrap_servers": self.servers}
        return {
            "bootstrap_servers": self.servers,
            "security_protocol": "SASL_SSL",
            "ssl_truststore_location": str(self.folder / TRUSTED_FILE),
            "ssl_keystore_location": str(self.folder / CLIENT_FILE),
            "sasl_mechanism": mechanism,
            **self._credentials(mechanism, self.folder),
        }

    def _credentials(self, mechanism: str, folder: Path) -> dict[str, Any]:
        if mechanism == TOKENS:
            return {"sasl_token_provider": self.provider}
        return {"sasl_username": USER, "sasl_password": SecretFile(folder / PASSWORD_FILE)}
