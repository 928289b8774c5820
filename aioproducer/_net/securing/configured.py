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
    location = options.get("ssl.truststore.location")
    if location is not None:
        return (location,)
    return (
        ()
        if "ssl.truststore.certificates" in options
        else tuple(filter(None, (_SYSTEM.cafile, _SYSTEM.capath)))
    )


def endpoint_tls(config: ProducerConfig) -> TlsSettings:
    """The TLS settings of the token endpoint: as in Java, its trust store is in the JAAS string, or that of the system."""
    options, place = jaas_options(config.sasl_jaas_config), "ssl.truststore.{} of sasl_jaas_config"
    location, certificates = (
        options.get("ssl.truststore.location"),
        options.get("ssl.truststore.certificates"),
    )
    if location is not None:
        password = options.get("ssl.truststore.password")
        secret = None if password is None else Secret(password)
        return TlsSettings(StoreFile(place.format("location"), location, secret))
    if certificates is not None:
        return TlsSettings(PemText(place.format("certificates"), certificates))
    return TlsSettings()
