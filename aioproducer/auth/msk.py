"""A provider of tokens of Amazon MSK: a request for a connection, signed with credentials of AWS."""

from __future__ import annotations

import base64
import inspect
import re
import time
from collections.abc import Awaitable, Callable
from typing import Final

from aioproducer._callers.own_thread import OneThread, in_own_thread
from aioproducer.auth.aws import AwsCredentials, presigned
from aioproducer.auth.botocore_chain import BotocoreChain, require_botocore
from aioproducer.auth.failing import NoTokenError
from aioproducer.errors import ConfigurationError
from aioproducer.secret import Secret, Token

__all__ = ["msk_iam", "msk_token", "signed_by"]

# The most that MSK accepts.
_LIFE: Final = 900
_REGION: Final = re.compile(r"[a-z]{2,}(-[a-z0-9]+)+")


def msk_iam(
    region: str, credentials: Callable[[], AwsCredentials | Awaitable[AwsCredentials]] | None = None
) -> Callable[[], Awaitable[Token]]:
    """A provider for Amazon MSK with IAM, for `sasl_mechanism="OAUTHBEARER"`.

    `credentials` is called for each token, in a thread unless it is a coroutine function. By default the chain of botocore finds them
    (extra `aws`), in a thread. A token is valid for 15 minutes, and no longer than its credentials.
    """
    if not _REGION.fullmatch(region):
        raise ConfigurationError("the region of msk_iam() is that of the cluster, such as 'eu-west-1'")
    if credentials is not None:
        return signed_by(region, credentials)
    require_botocore()
    return signed_by(region, BotocoreChain())


def signed_by(
    region: str, source: BotocoreChain | Callable[[], AwsCredentials | Awaitable[AwsCredentials]]
) -> Callable[[], Awaitable[Token]]:
    """A provider of tokens that are signed with the credentials of this source."""
    thread = OneThread()

    async def provide() -> Token:
        if isinstance(source, BotocoreChain):
            found: object = await in_own_thread(source.find)
        else:
            given = source() if inspect.iscoroutinefunction(source) else await thread.call(source)
            found = await given if inspect.isawaitable(given) else given
            # No frame of a traceback keeps a pair of keys in place of credentials.
            del given
        if isinstance(found, AwsCredentials):
            return msk_token(region, found, time.time())
        kind = type(found).__name__
        del found
        raise NoTokenError(f"got no AwsCredentials: the callable of msk_iam() gave {kind}")

    return provide


def msk_token(region: str, credentials: AwsCredentials, now: float) -> Token:
    """A token that is signed now (in seconds since the epoch); NoTokenError if the credentials have expired."""
    left = _LIFE if credentials.expires_at is None else min(_LIFE, int(credentials.expires_at - now))
    if left < 1:
        raise NoTokenError("got credentials of AWS that have expired")
    url = _url(region, credentials, now, left)
    if url is None:
        raise NoTokenError("got credentials of AWS that are not UTF-8 text")
    text = f"{url.reveal()}&User-Agent=aioproducer".encode()
    return Token(base64.urlsafe_b64encode(text).decode().rstrip("="), now + left)


def _url(region: str, credentials: AwsCredentials, now: float, left: int) -> Secret | None:
    """The signed URL; None for keys that cannot be encoded: the error of the codec would hold them."""
    parameters, scope = [("Action", "kafka-cluster:Connect")], (region, "kafka-cluster")
    try:
        return presigned(f"kafka.{region}.amazonaws.com", parameters, credentials, scope, now, left)
    except UnicodeEncodeError:
        return None
