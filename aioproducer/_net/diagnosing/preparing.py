"""The security of an examination, made of the settings before anything is dialed: missing files are found here."""

from __future__ import annotations

import asyncio
import random
import ssl
from functools import partial
from typing import TYPE_CHECKING

import attrs

from aioproducer._net.connecting.conversing import in_a_thread
from aioproducer._net.securing.calling import UserFunctions
from aioproducer._net.securing.configured import tls_secrets, tls_settings
from aioproducer._net.securing.protocol import security_of
from aioproducer._net.securing.secrets import revealed, revealed_all
from aioproducer._net.tls.context import own_certificates
from aioproducer.security.stores import pem
from aioproducer.security.tls.certificate import read_certificate

if TYPE_CHECKING:
    from aioproducer._net.connecting.security import SecurityProtocol
    from aioproducer._state.diagnosing.facts import Certificate
    from aioproducer.config import ProducerConfig

__all__ = ["Prepared", "prepared"]


@attrs.frozen
class Prepared:
    """The security of all connections, and the certificate of this client, if it has one that can be read."""

    security: SecurityProtocol
    own_certificate: Certificate | None = None


async def prepared(config: ProducerConfig) -> Prepared:
    """Read files and secrets as a producer would: ConfigurationError for the first one that cannot be used."""
    security = security_of(config, asyncio.get_running_loop(), random.Random())  # noqa: S311  # jitter, not secrets
    own = None
    if security.tls_context is not None:
        await security.tls_context()
        if config.ssl_context is None:
            own = await _own_certificate(config)
    if config.sasl_password is not None and config.security_protocol.startswith("SASL"):
        await revealed("sasl_password", config.sasl_password, UserFunctions())
    return Prepared(security, own)


async def _own_certificate(config: ProducerConfig) -> Certificate | None:
    settings = tls_settings(config, await revealed_all(tls_secrets(config), UserFunctions()))
    found = pem.blocks(await in_a_thread(partial(own_certificates, settings)))
    return read_certificate(ssl.PEM_cert_to_DER_cert(found[0].text)) if found else None
