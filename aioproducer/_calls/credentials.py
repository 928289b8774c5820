"""The calls of a producer that change its credentials and certificates while it runs."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from aioproducer.config import ProducerConfig, with_credentials
from aioproducer.errors import ConfigurationError
from aioproducer.secret import GivenSecret

if TYPE_CHECKING:
    from aioproducer._net.runtime.engine import Engine


class CredentialCalls:
    """The calls of `Producer` for new credentials and certificates."""

    config: ProducerConfig
    _state: str

    def _running(self) -> Engine:
        """The engine, or the reason why there is none to be used from here."""
        raise NotImplementedError

    def set_credentials(
        self,
        *,
        username: str | None = None,
        password: GivenSecret | None = None,
        token_provider: Callable[[], Any] | None = None,
    ) -> None:
        """Use other credentials from the next authentication on: a user name, a password, or both, or a provider of tokens.

        Open connections are replaced one by one, each after its answers: no record is lost or sent twice by it. Where a
        broker refuses the new credentials, the remaining connections stay open. ConfigurationError: the mechanism takes
        other credentials.
        """
        changes: dict[str, Any] = {
            "sasl_username": username,
            "sasl_password": password,
            "sasl_token_provider": token_provider,
        }
        # No frame of a traceback keeps a secret, or a token in place of its provider.
        del password, token_provider
        config = with_credentials(self.config, changes)
        if self._state != "new":
            self._running().addresses.adopt_credentials(config)
        self.config = config

    async def reload_certificates(self) -> None:
        """Read the files of certificates and keys now; open connections are replaced one by one, each after its answers.

        ConfigurationError if they cannot be used: the former certificates stay in use. Files that change are also read
        without this call, for new connections only.
        """
        if not self.config.security_protocol.endswith("SSL"):
            raise ConfigurationError(
                f"security_protocol={self.config.security_protocol}: there are no certificates to reload"
            )
        await self._running().addresses.reload_certificates()
