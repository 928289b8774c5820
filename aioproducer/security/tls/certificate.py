"""The few parts of an X.509 certificate that people ask for; certificates are verified by OpenSSL, never by this."""

from __future__ import annotations

import datetime
import ipaddress
from collections.abc import Iterator

import attrs

from aioproducer._state.diagnosing.facts import Certificate
from aioproducer.errors import printable

__all__ = ["read_certificate"]

_SEQUENCE = 0x30
_VERSION, _EXTENSIONS = 0xA0, 0xA3
_UTC_TIME = 0x17
_DNS_NAME, _ADDRESS = 0x82, 0x87
_SUBJECT_ALTERNATIVE_NAME = b"\x55\x1d\x11"
_WORDS = {b"\x55\x04\x03": "CN", b"\x55\x04\x0a": "O", b"\x55\x04\x0b": "OU", b"\x55\x04\x06": "C"}
_TEXTS = {0x0C: "utf-8", 0x13: "ascii", 0x16: "ascii", 0x14: "latin-1", 0x1E: "utf-16-be"}


def read_certificate(der: bytes) -> Certificate | None:
    """The certificate in these bytes; None if they are none."""
    try:
        return _read(der)
    except (IndexError, ValueError, OverflowError):
        return None


@attrs.frozen
class _Element:
    """One element of DER: its tag and its content."""

    tag: int
    content: bytes

    def children(self) -> Iterator[_Element]:
        """The elements inside."""
        rest = self.content
        while rest:
            element, rest = _first(rest)
            yield element

    def child(self, tag: int) -> _Element:
        """The first element inside that has this tag; ValueError without one."""
        for element in self.children():
            if element.tag == tag:
                return element
        raise ValueError("an element is missing")


def _first(data: bytes) -> tuple[_Element, bytes]:
    tag, length, start = data[0], data[1], 2
    if length & 0x80:
        start += length & 0x7F
        length = int.from_bytes(data[2:start])
    if start + length > len(data):
        raise ValueError("an element is longer than its certificate")
    return _Element(tag, data[start : start + length]), data[start + length :]


def _read(der: bytes) -> Certificate:
    parts = list(_first(der)[0].child(_SEQUENCE).children())
    if parts[0].tag == _VERSION:
        del parts[0]
    _serial, _algorithm, issuer, validity, subject = parts[:5]
    begin, end = list(validity.children())[:2]
    names = [name for part in parts if part.tag == _EXTENSIONS for name in _names(part.child(_SEQUENCE))]
    return Certificate(_name(subject), _name(issuer), tuple(names), _time(begin), _time(end))


def _name(element: _Element) -> str:
    """`CN=kafka, O=Example`, the parts that people know."""
    found = []
    for group in element.children():
        kind, value = list(group.child(_SEQUENCE).children())[:2]
        word = _WORDS.get(kind.content)
        if word is not None:
            found.append(f"{word}={printable(value.content.decode(_TEXTS.get(value.tag, 'latin-1')))}")
    return ", ".join(found)


def _names(extensions: _Element) -> Iterator[str]:
    """The host names and addresses that the certificate is for."""
    for extension in extensions.children():
        parts = list(extension.children())
        if parts[0].content != _SUBJECT_ALTERNATIVE_NAME:
            continue
        for name in _first(parts[-1].content)[0].children():
            if name.tag == _DNS_NAME:
                yield printable(name.content.decode("ascii"))
            elif name.tag == _ADDRESS:
                yield str(ipaddress.ip_address(name.content))


def _time(element: _Element) -> float:
    text = element.content.decode("ascii")
    if element.tag == _UTC_TIME:  # two digits of the year: 1950 to 2049
        text = ("20" if int(text[:2]) < 50 else "19") + text
    moment = datetime.datetime.strptime(text, "%Y%m%d%H%M%SZ").replace(tzinfo=datetime.UTC)
    return moment.timestamp()
