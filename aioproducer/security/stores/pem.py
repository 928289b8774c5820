"""PEM text: its blocks, also where newlines were lost."""

from __future__ import annotations

import base64
import binascii

import attrs

__all__ = ["BEGIN", "CERTIFICATE", "Block", "blocks", "from_der"]

CERTIFICATE = "CERTIFICATE"
BEGIN, _END, _DASHES = "-----BEGIN ", "-----END ", "-----"
# Former names of certificates, which OpenSSL reads as well.
_CERTIFICATES = frozenset((CERTIFICATE, f"X509 {CERTIFICATE}"))
_LINE = 64


@attrs.frozen
class Block:
    """One block. The text may be a private key, so the repr does not show it."""

    label: str
    text: str = attrs.field(repr=False)

    @property
    def is_private_key(self) -> bool:
        """Whether this is a private key of any format, encrypted or not."""
        return self.label.endswith("PRIVATE KEY")


def blocks(text: str) -> list[Block]:
    """The blocks of a text, in the form that OpenSSL reads; ValueError for a block that is damaged.

    Kafka accepts spaces, or a backslash with an n, in place of newlines; OpenSSL does not.
    """
    return [_block(part) for part in text.replace("\\n", "\n").split(BEGIN)[1:]]


def from_der(label: str, der: bytes) -> str:
    """A block of these bytes."""
    return _framed(label, base64.b64encode(der).decode())


def _block(part: str) -> Block:
    label, _, rest = part.partition(_DASHES)
    body, end, _ = rest.partition(f"{_END}{label}{_DASHES}")
    if not end:
        raise ValueError("a PEM block has no end")
    if not body.isascii():
        raise ValueError("a PEM block has a character that is not ASCII")
    if ":" in body:  # a key with headers, encrypted in OpenSSL's former format: its lines have a meaning
        return Block(label, f"{BEGIN}{label}{_DASHES}{body}{_END}{label}{_DASHES}\n")
    encoded = "".join(body.split())
    if not _is_base64(encoded):
        raise ValueError("a PEM block is not base64")
    present = CERTIFICATE if label in _CERTIFICATES else label
    return Block(present, _framed(present, encoded))


def _is_base64(text: str) -> bool:
    try:
        return bool(base64.b64decode(text, validate=True))
    except (binascii.Error, ValueError):
        return False


def _framed(label: str, encoded: str) -> str:
    lines = "\n".join(encoded[start : start + _LINE] for start in range(0, len(encoded), _LINE))
    return f"{BEGIN}{label}{_DASHES}\n{lines}\n{_END}{label}{_DASHES}\n"
