"""The security settings of a configuration, in the form that contexts and mechanisms take."""

from __future__ import annotations

import ssl
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Final

from aioproducer.auth.aws import AwsCredentials
from aioproducer.auth.botocore_chain import BotocoreChain, require_botocore
from aioproducer.auth.msk import signed_by
from aioproducer.config import iam_options, jaas_options, region_of
from aioproducer.secret import Secret, SecretFile
from aioproducer.security.tls.settings import PemIdentity, PemText, StoreFile, TlsSettings
from aioproducer.security.tokens.lifetime import Renewal

if TYPE_CHECKING:
    from aioproducer.config import ProducerConfig
    from aioproducer.secret import SecretSource, Token

__all__ = [
    "endpoint_files",
    "endpoint_tls",
    "iam_provider",
    "renewal_of",
    "tls_files",
    "tls_secrets",
    "tls_settings",
]

_SECRETS: Final = (
    "ssl_truststore_password",
    "ssl_keystore_password",
    "ssl_key_password",
    "ssl_keystore_key",
)

# Not asked for on the event loop: the call looks for the files.
_SYSTEM: Final = ssl.get_default_verify_paths()

# Options of a JAAS string.
_OF_JAAS: Final = " of sasl_jaas_config"
_TRUST: Final = "ssl.truststore.location"
_TRUST_TEXT: Final = "ssl.truststore.certificates"
_KEYS: Final = "ssl.keystore.location"
_KEY_TEXT: Final = "ssl.keystore.key"


def tls_secrets(config: ProducerConfig) -> dict[str, SecretSource]:
    """The secrets that the TLS settings need, by setting."""
    found = {name: getattr(config, name) for name in _SECRETS}
    return {name: secret for name, secret in found.items() if secret is not None}


def tls_files(config: ProducerConfig) -> tuple[str, ...]:
    """The files that a context is made of: when one of them changes, the context is made again."""
    stores = (config.ssl_truststore_location, config.ssl_keystore_location)
    secrets = (secret.path for secret in tls_secrets(config).values() if isinstance(secret, SecretFile))
    return (*(path for path in stores if path is not None), *secrets)


def tls_settings(config: ProducerConfig, secrets: Mapping[str, Secret]) -> TlsSettings:
    """The settings of a TLS context. `secrets` has what `tls_secrets` names."""
    return TlsSettings(
        trust=_trust(config, secrets),
        identity=_identity(config, secrets),
        key_password=secrets.get("ssl_key_password"),
        checks_host_name=config.ssl_endpoint_identification_algorithm != "",
        is_without_1_2="TLSv1.2" not in config.ssl_enabled_protocols,
        is_without_1_3="TLSv1.3" not in config.ssl_enabled_protocols,
        ciphers=":".join(config.ssl_cipher_suites),
    )


def _trust(config: ProducerConfig, secrets: Mapping[str, Secret]) -> StoreFile | PemText | None:
    if config.ssl_truststore_location is not None:
        password = secrets.get("ssl_truststore_password")
        return StoreFile("ssl_truststore_location", config.ssl_truststore_location, password)
    if config.ssl_truststore_certificates is not None:
        return PemText("ssl_truststore_certificates", config.ssl_truststore_certificates)
    return None


def _identity(config: ProducerConfig, secrets: Mapping[str, Secret]) -> StoreFile | PemIdentity | None:
    if config.ssl_keystore_location is not None:
        password = secrets.get("ssl_keystore_password")
        return StoreFile("ssl_keystore_location", config.ssl_keystore_location, password)
    if config.ssl_keystore_certificate_chain is not None:
        key = secrets["ssl_keystore_key"]
        return PemIdentity("ssl_keystore_key", key, config.ssl_keystore_certificate_chain)
    return None


# -- tokens


def renewal_of(config: ProducerConfig) -> Renewal:
    """The time at which a token is renewed."""
    return Renewal(
        config.sasl_login_refresh_window_factor,
        config.sasl_login_refresh_window_jitter,
        config.sasl_login_refresh_min_period_seconds,
        config.sasl_login_refresh_buffer_seconds,
    )


def iam_provider(config: ProducerConfig) -> Callable[[], Awaitable[Token]] | None:
    """The provider of tokens that the login module of Amazon MSK stands for; None if there is another one, or none."""
    region = region_of(config.bootstrap_servers)
    if region is None or iam_options(config.sasl_jaas_config) is None:
        return None
    require_botocore()
    return signed_by(region, _aws_chain(iam_options(config.sasl_jaas_config) or {}, region))


def _aws_chain(options: Mapping[str, str], region: str) -> BotocoreChain:
    key, secret = options.get("awsRoleAccessKeyId"), options.get("awsRoleSecretAccessKey")
    base = None
    if key is not None and secret is not None:
        base = AwsCredentials(key, secret, options.get("awsRoleSessionToken"))
    return BotocoreChain(
        options.get("awsProfileName"),
        options.get("awsRoleArn"),
        base,
        options.get("awsRoleSessionName", "aioproducer"),
        options.get("awsRoleExternalId"),
        options.get("awsStsRegion", region),
    )


def endpoint_files(config: ProducerConfig) -> tuple[str, ...]:
    """The files that the TLS context of the token endpoint is made of."""
    options = jaas_options(config.sasl_jaas_config)
    stores = [options[name] for name in (_TRUST, _KEYS) if name in options]
    is_of_system = not (_TRUST in options or _TRUST_TEXT in options)
    system = (_SYSTEM.cafile, _SYSTEM.capath) if is_of_system else ()
    return (*stores, *(path for path in system if path))


def endpoint_tls(config: ProducerConfig) -> TlsSettings:
    """The TLS settings of the token endpoint. As in Java, its stores are in the JAAS string; or the system's trust store is used."""
    options = jaas_options(config.sasl_jaas_config)
    return TlsSettings(
        trust=_endpoint_trust(options),
        identity=_endpoint_identity(options),
        key_password=_option("ssl.key.password", options),
    )


def _endpoint_trust(options: Mapping[str, str]) -> StoreFile | PemText | None:
    if _TRUST in options:
        password = _option("ssl.truststore.password", options)
        return StoreFile(f"{_TRUST}{_OF_JAAS}", options[_TRUST], password)
    return PemText(f"{_TRUST_TEXT}{_OF_JAAS}", options[_TRUST_TEXT]) if _TRUST_TEXT in options else None


def _endpoint_identity(options: Mapping[str, str]) -> StoreFile | PemIdentity | None:
    if _KEYS in options:
        password = _option("ssl.keystore.password", options)
        return StoreFile(f"{_KEYS}{_OF_JAAS}", options[_KEYS], password)
    key, chain = _option(_KEY_TEXT, options), options.get("ssl.keystore.certificate.chain")
    return None if key is None or chain is None else PemIdentity(f"{_KEY_TEXT}{_OF_JAAS}", key, chain)


def _option(name: str, options: Mapping[str, str]) -> Secret | None:
    return Secret(options[name]) if name in options else None
