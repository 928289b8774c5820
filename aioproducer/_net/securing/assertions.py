"""Assertions that this client signs, with the key and the template of the settings, which are read each time."""

from __future__ import annotations

import uuid
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeVar

from aioproducer._net.connecting.conversing import in_a_thread
from aioproducer._net.securing.secrets import revealed
from aioproducer.errors import ConfigurationError
from aioproducer.secret import Secret
from aioproducer.security.tokens.assertions import Claims, Template, signed_assertion, template_in

if TYPE_CHECKING:
    from collections.abc import Callable

    from aioproducer._net.securing.calling import UserFunctions
    from aioproducer.config import ProducerConfig
    from aioproducer.security.tokens.signing import Sign

__all__ = ["assertion_of"]

T = TypeVar("T")
_SETTING: Final = "sasl_oauthbearer_assertion_"
_LARGEST: Final = 1024 * 1024


async def assertion_of(config: ProducerConfig, now: float, functions: UserFunctions) -> Secret:
    """A signed assertion; ConfigurationError names the setting and the file that cannot be used."""
    source = config.sasl_oauthbearer_assertion_private_key_passphrase
    passphrase = None
    if source is not None:
        passphrase = await revealed(f"{_SETTING}private_key_passphrase", source, functions)
    return await in_a_thread(partial(_made, config, passphrase, int(now)))


def _made(config: ProducerConfig, passphrase: Secret | None, now: int) -> Secret:
    algorithm = config.sasl_oauthbearer_assertion_algorithm
    key, template = (
        config.sasl_oauthbearer_assertion_private_key_file or "",
        config.sasl_oauthbearer_assertion_template_file,
    )
    sign = _read("private_key_file", key, lambda text: _signer(text, passphrase, algorithm))
    parts = Template() if template is None else _read("template_file", template, template_in)
    identifier = str(uuid.uuid4()) if config.sasl_oauthbearer_assertion_claim_jti_include else None
    return signed_assertion(algorithm, sign, _claims(config), parts, now, identifier)


def _claims(config: ProducerConfig) -> Claims:
    return Claims(
        config.sasl_oauthbearer_assertion_claim_aud,
        config.sasl_oauthbearer_assertion_claim_iss,
        config.sasl_oauthbearer_assertion_claim_sub,
        config.sasl_oauthbearer_assertion_claim_exp_seconds,
        config.sasl_oauthbearer_assertion_claim_nbf_seconds,
    )


def _signer(text: Secret, passphrase: Secret | None, algorithm: str) -> Sign:
    try:
        # Not above: `cryptography` is an extra, and its import takes long.
        from aioproducer.security.tokens.signing import signer  # noqa: PLC0415
    except ImportError:
        why = "signing requires the extra jwt: pip install 'aioproducer[jwt]', or use sasl_oauthbearer_assertion_file"
    else:
        return signer(text, passphrase, algorithm)
    raise ValueError(why)


def _read(name: str, path: str, use: Callable[[Secret], T]) -> T:
    """Use the content of a file. No error keeps a frame that holds its content."""
    try:
        return use(_content(path))
    except OSError as error:
        why = error.strerror or type(error).__name__
    except UnicodeError:  # before ValueError, which it is: its text would show a part of the file
        why = "it is not UTF-8 text"
    except ValueError as error:
        why = str(error)
    raise ConfigurationError(f"{_SETTING}{name}={path}: {why}")


def _content(path: str) -> Secret:
    with Path(path).open(encoding="utf-8-sig") as file:
        return Secret(file.read(_LARGEST))
