"""Certificates of brokers that OpenSSL refuses: the error has words and advice, not only a number."""

from __future__ import annotations

import ssl

import pytest

from aioproducer.errors import AuthenticationError
from aioproducer.security.tls.failures import tls_failure


@pytest.mark.parametrize(
    ("code", "words", "helps"),
    [
        (66, "the key of the certificate of the broker is too short", True),
        (67, "the key of the authority of the broker is too short", True),
        (68, "is too weak: issue a new one", False),
    ],
)
def test_certificates_that_are_too_weak(code: int, words: str, helps: bool) -> None:
    """A lower level admits short keys. A digest such as SHA-1 is refused at level 1 as well, so it is no advice there."""
    error = ssl.SSLCertVerificationError()
    error.verify_code = code
    failure = tls_failure(error, "localhost")
    assert isinstance(failure, AuthenticationError)
    assert failure.reason == "certificate"
    assert words in str(failure)
    assert ("@SECLEVEL=1" in str(failure)) is helps


def test_a_certificate_that_is_refused_for_a_rare_reason() -> None:
    """OpenSSL's own words are shown."""
    error = ssl.SSLCertVerificationError()
    error.verify_code, error.verify_message = 51, "unsupported name constraint type"
    assert "cannot be verified: unsupported name constraint type (code 51)" in str(tls_failure(error, "{x}"))
