"""The mutants of security: peers that are not who they should be, and keys that are not kept."""

from __future__ import annotations

from typing import Final

from tests.mutants.mutant import Kind

_CONTEXT: Final = "tests/net/tls/test_context.py"
_RELOADING: Final = "tests/net/tls/test_reloading.py"
_SCRAM: Final = "tests/security/test_scram.py"
_STORES: Final = "tests/security/test_stores.py"
_TLS: Final = "tests/connection/test_tls.py"

_mutant = Kind("security")

SECURITY: Final = (
    _mutant(
        "common-name-accepted",
        "_net/tls/context.py",
        "    context.hostname_checks_common_name = False\n",
        "",
        "A certificate whose common name is the host, without an alternative name, is accepted (kafka-python #3113).",
        f"{_TLS}::test_a_certificate_that_is_refused",
    ),
    _mutant(
        "address-sent-as-server-name",
        "_net/connecting/dialing.py",
        '"server_hostname": endpoint.server_name}',
        '"server_hostname": endpoint.host}',
        "A trailing dot of the advertised name goes to the broker, and no certificate has it.",
        f"{_TLS}::test_the_advertised_name_is_sent_and_checked",
    ),
    _mutant(
        "refused-client-certificate-is-an-outage",
        "_net/connecting/dialing.py",
        "    cause = error.cause if isinstance(error, BrokerUnavailableError) else error\n",
        "    cause = error\n",
        "With TLS 1.3 a refused certificate of the client looks like a broker that cannot be reached (S51).",
        f"{_TLS}::test_a_broker_that_refuses_the_client",
    ),
    _mutant(
        "key-prompted-for",
        "_net/tls/context.py",
        "context.load_cert_chain(path, password=_password(identity.password))",
        "context.load_cert_chain(path, password='x' if identity.password is None else identity.password.reveal())",
        "An encrypted key without a password is reported as a wrong password.",
        f"{_CONTEXT}::test_what_cannot_be_used",
    ),
    _mutant(
        "half-renewed-certificate-used",
        "_net/tls/reloading.py",
        "            if present is None:\n                raise\n",
        "            raise\n",
        "A key and a certificate of which one is new: no connection can be opened until the other is there (S48).",
        f"{_RELOADING}::test_a_broken_file_keeps_the_former_context",
    ),
    _mutant(
        "certificates-never-read-again",
        "_net/tls/reloading.py",
        "    return None if stamp == known else (stamp, make_context(settings))\n",
        "    return None if known is not None else (stamp, make_context(settings))\n",
        "A renewed certificate is not used until the program restarts.",
        f"{_RELOADING}::test_a_changed_file_gives_another_context",
    ),
    _mutant(
        "store-password-unchecked",
        "security/jks.py",
        "        if not hmac.compare_digest(expected, digest):\n",
        "        if False:\n",
        "A Java key store is read with a wrong password.",
        f"{_STORES}::test_wrong_passwords_of_java_key_stores",
    ),
    _mutant(
        "second-login-module-ignored",
        "config/jaas.py",
        "    if not tokens.is_at_end:\n",
        "    if False:\n",
        "A JAAS string of two login modules is taken for the first, which Kafka refuses.",
        "tests/vocabulary/test_jaas.py::test_what_is_refused",
    ),
    _mutant(
        "scram-signature-unchecked",
        "security/scram.py",
        "        if not keys.is_signature(self._signature_in(server_final), signed):\n",
        "        if self._signature_in(server_final) is None:\n",
        "A broker that does not know the password is believed (CVE-2021-38153).",
        f"{_SCRAM}::test_a_broker_that_does_not_know_the_password",
    ),
    _mutant(
        "scram-nonce-unchecked",
        "security/scram.py",
        "        if not nonce.startswith(own_nonce) or len(nonce) == len(own_nonce):\n",
        "        if not nonce:\n",
        "An old exchange can be played again (CVE-2024-56128).",
        f"{_SCRAM}::test_a_first_message_that_is_refused",
    ),
    _mutant(
        "scram-iterations-unbounded",
        "security/scram.py",
        "not _LEAST_ITERATIONS <= int(iterations) <= most_iterations",
        "int(iterations) < 0",
        "One iteration makes the password easy to guess; two billion hold a processor for minutes (CVE-2026-10143).",
        f"{_SCRAM}::test_a_first_message_that_is_refused",
    ),
)
