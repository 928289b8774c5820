"""Other credentials for a configuration, of the same mechanism."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from aioproducer.errors import ConfigurationError

if TYPE_CHECKING:
    from aioproducer.config.producer import ProducerConfig

__all__ = ["with_credentials"]

_TOKENS: Final = "OAUTHBEARER"
_KERBEROS: Final = "GSSAPI"


def with_credentials(config: ProducerConfig, changes: dict[str, Any]) -> ProducerConfig:
    """The configuration with these of `sasl_username`, `sasl_password` and `sasl_token_provider` that are not None.

    It empties the changes: no frame of a traceback keeps a secret.
    """
    given = {name for name, value in changes.items() if value is not None}
    try:
        problem = _problem(config, given)
        if problem:
            raise ConfigurationError(f"set_credentials(): {problem}")
        made = {name: changes[name] for name in given}
        if config.sasl_jaas_config is not None:
            # The other half of a pair may be in there.
            made = {**_of_jaas(config), "sasl_jaas_config": None, **made}
        return config.evolve(**made)
    finally:
        changes.clear()
        made = {}


def _problem(config: ProducerConfig, given: set[str]) -> str:
    mechanism = config.sasl_mechanism
    if not config.security_protocol.startswith("SASL"):
        return f"security_protocol={config.security_protocol} has no credentials"
    if mechanism == _KERBEROS:
        return "GSSAPI reads its key table or ticket cache at each authentication: replace that file"
    wanted = {"sasl_token_provider"} if mechanism == _TOKENS else {"sasl_username", "sasl_password"}
    if not given or given - wanted:
        words = "token_provider" if mechanism == _TOKENS else "username and password, or one of them"
        return f"{mechanism} takes {words}"
    if mechanism == _TOKENS and config.sasl_token_provider is None:
        return "the tokens of this producer come from its settings, and not from sasl_token_provider"
    return ""


def _of_jaas(config: ProducerConfig) -> dict[str, Any]:
    return {
        "sasl_username": config.sasl_username,
        "sasl_password": config.sasl_password,
        "sasl_scram_token_auth": config.sasl_scram_token_auth,
    }
