"""The mutants of security: unauthenticated peers, and keys that are read wrongly."""

from __future__ import annotations

from typing import Final

from tests.mutants.mutant import Kind

_ALLOWED: Final = "tests/connection/test_allowed_brokers.py"
_ASSERTIONS: Final = "tests/security/tokens/test_assertions.py"
_CONTEXT: Final = "tests/net/tls/test_context.py"
_KERBEROS: Final = "tests/security/sasl/test_kerberos.py"
_MSK: Final = "tests/net/securing/test_msk_iam.py"
_PKCS12: Final = "tests/security/stores/test_pkcs12.py"
_PROVIDERS: Final = "tests/vocabulary/test_providers.py"
_REFUSED: Final = "tests/connection/test_refused_credentials.py"
_RELOADING: Final = "tests/net/tls/test_reloading.py"
_RENEWAL: Final = "tests/connection/test_renewal.py"
_SCRAM: Final = "tests/security/sasl/test_scram.py"
_SECRETS: Final = "tests/net/securing/test_secrets.py"
_SETTINGS: Final = "tests/vocabulary/test_security_settings.py"
_STORES: Final = "tests/security/stores/test_stores.py"
_TLS: Final = "tests/connection/test_tls.py"
_TOKENS: Final = "tests/net/securing/test_tokens.py"
_NEW: Final = "tests/net/securing/test_new_credentials.py"

_mutant = Kind("security")

SECURITY: Final = (
    _mutant(
        "refused-attempt-is-not-shared",
        "_net/cluster/control.py",
        "                if self._failure is not None and self._failure is not former:\n",
        "                if False:\n",
        "Two tasks that need the same connection are refused one after the other, each behind a pause of its own.",
        f"{_REFUSED}::test_a_refused_attempt_of_another_task_is_told",
    ),
    _mutant(
        "renewals-at-the-same-time",
        "_net/connecting/renewal_pacing.py",
        "        await self._follow(self._loop.time() + left * _OF_THE_REST)\n",
        "        await asyncio.sleep(0)\n",
        "The connections of a user that was deleted are refused at the same moment, and the account is locked.",
        "tests/connection/test_renewal_pacing.py::test_renewals_follow_one_another",
    ),
    _mutant(
        "common-name-accepted",
        "_net/tls/context.py",
        "    context.hostname_checks_common_name = False\n",
        "",
        "A certificate is accepted by its common name, without an alternative name (kafka-python #3113).",
        f"{_TLS}::test_a_certificate_that_is_refused",
    ),
    _mutant(
        "address-sent-as-server-name",
        "_net/connecting/dialing.py",
        '"server_hostname": endpoint.server_name}',
        '"server_hostname": endpoint.host}',
        "The trailing dot of an advertised name is sent to the broker, and no certificate has it.",
        f"{_TLS}::test_the_advertised_name_is_sent_and_checked",
    ),
    _mutant(
        "refused-client-certificate-is-an-outage",
        "_net/connecting/dialing.py",
        "    cause = error.cause if isinstance(error, BrokerUnavailableError) else error\n",
        "    cause = error\n",
        "With TLS 1.3 the refusal of a client certificate looks like a broker that cannot be reached (S51).",
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
        "token-kept-by-the-driver",
        "_net/connecting/conversing.py",
        "                            del result  #",
        "                            pass  #",
        "A report of a failed authentication, with the variables of each frame, shows the token that was fetched for it.",
        "tests/connection/test_conversing.py::test_an_error_keeps_no_result_of_a_former_step",
    ),
    _mutant(
        "half-renewed-certificate-used",
        "_net/tls/reloading.py",
        "            if present is None:\n                raise\n",
        "            raise\n",
        "Of a key and a certificate one is renewed first: no connection can be opened until the other is renewed (S48).",
        f"{_RELOADING}::test_a_broken_file_keeps_the_former_context",
    ),
    _mutant(
        "certificates-never-read-again",
        "_net/tls/reloading.py",
        "        if present is not None and stamp == self._stamp:\n",
        "        if present is not None:\n",
        "A renewed certificate is not used until the program restarts.",
        f"{_RELOADING}::test_a_changed_file_gives_another_context",
    ),
    _mutant(
        "store-password-unchecked",
        "security/stores/jks.py",
        "        if not hmac.compare_digest(expected, digest):\n",
        "        if False:\n",
        "A Java key store is read with a wrong password.",
        f"{_STORES}::test_wrong_passwords_of_java_key_stores",
    ),
    _mutant(
        "second-login-module-ignored",
        "config/security/jaas.py",
        "    if not tokens.is_at_end:\n",
        "    if False:\n",
        "A JAAS string of two login modules is taken for the first, which Kafka refuses.",
        "tests/vocabulary/test_jaas.py::test_what_is_refused",
    ),
    _mutant(
        "scram-signature-unchecked",
        "security/sasl/scram.py",
        "        if not keys.is_signature(self._signature_in(server_final), signed):\n",
        "        if self._signature_in(server_final) is None:\n",
        "A broker that does not know the password is trusted (CVE-2021-38153).",
        f"{_SCRAM}::test_a_broker_that_does_not_know_the_password",
    ),
    _mutant(
        "scram-nonce-unchecked",
        "security/sasl/scram.py",
        "        if not nonce.startswith(own_nonce) or len(nonce) == len(own_nonce):\n",
        "        if not nonce:\n",
        "An old exchange can be replayed (CVE-2024-56128).",
        f"{_SCRAM}::test_a_first_message_that_is_refused",
    ),
    _mutant(
        "scram-iterations-unbounded",
        "security/sasl/scram.py",
        "not _LEAST_ITERATIONS <= int(iterations) <= most_iterations",
        "int(iterations) < 0",
        "One iteration makes the password easy to guess; two billion occupy a processor for minutes (CVE-2026-10143).",
        f"{_SCRAM}::test_a_first_message_that_is_refused",
    ),
    _mutant(
        "kerberos-broker-unproven",
        "security/sasl/kerberos.py",
        "    if not made.is_proven:\n",
        "    if False:\n",
        "A broker without the key of its service is trusted: mutual authentication is not required.",
        f"{_KERBEROS}::test_a_broker_that_is_not_proven",
    ),
    _mutant(
        "kerberos-layer-ignored",
        "security/sasl/kerberos.py",
        "    if not offer[0] & _NO_LAYER:\n",
        "    if False:\n",
        "A broker that requires a security layer gets messages without one.",
        f"{_KERBEROS}::test_a_broker_that_is_not_proven",
    ),
    _mutant(
        "kerberos-error-has-the-token",
        "security/sasl/kerberos.py",
        "        raise failure\n",
        "        raise failure from failure.__context__ or ValueError('canary')\n",
        "The error of the library, which may hold a token, is shown as the cause.",
        f"{_KERBEROS}::test_a_broker_that_is_not_proven",
    ),
    _mutant(
        "kerberos-on-the-loop",
        "security/sasl/kerberos.py",
        "context: KerberosContext = yield from _made(credentials, partial(begin, credentials))",
        "context: KerberosContext = begin(credentials)",
        "Files are read, and the KDC is asked, on the event loop (S49).",
        f"{_KERBEROS}::test_nothing_of_the_library_is_called_on_the_loop",
    ),
    _mutant(
        "session-written-after-its-end",
        "_net/connecting/connection/gate.py",
        "        if session is None or self._loop.time() < session.last_write_at:\n",
        "        if True:\n",
        "The loop was blocked over the end of a session: the broker drops the next request without an answer.",
        f"{_RENEWAL}::test_nothing_is_written_after_the_end_of_a_session",
    ),
    _mutant(
        "session-never-renewed",
        "_net/connecting/renewal.py",
        "            if due < session.last_write_at and (connection.in_flight or _Use.of(connection) != before):\n",
        "            if False:\n",
        "Each connection ends with its first session.",
        f"{_RENEWAL}::test_a_connection_in_use_authenticates_again",
    ),
    _mutant(
        "renewed-session-forgotten",
        "_net/connecting/renewal.py",
        "            session = connection.gate.session = renewed\n",
        "            session = renewed\n",
        "A connection takes no request after its first session, though it has another one.",
        f"{_RENEWAL}::test_a_connection_in_use_authenticates_again",
    ),
    _mutant(
        "token-fetched-for-each-connection",
        "_net/securing/tokens.py",
        "            if cached is None or not (is_new or cached.is_fresh(self._clock())):\n",
        "            if True:\n",
        "The identity provider is asked once for each connection.",
        f"{_TOKENS}::test_a_token_is_kept_until_it_is_renewed",
    ),
    _mutant(
        "token-without-an-end-fetched-by-each",
        "_net/securing/tokens.py",
        "            is_new = self._fetched > fetched\n",
        "            is_new = False\n",
        "Connections that wait for an opaque token fetch theirs one after the other; a session of a second ends before that.",
        f"{_TOKENS}::test_connections_at_the_same_time_share_a_token_without_an_end",
    ),
    _mutant(
        "replaced-before-its-answers",
        "_net/connecting/replacing.py",
        "            connection.departure.leave_when_answered()\n",
        "            connection.close()\n",
        "New credentials close connections with requests in flight: their records are repeated, or UNKNOWN.",
        f"{_NEW}::test_a_password_changes_while_records_are_sent",
    ),
    _mutant(
        "all-connections-closed-for-a-wrong-password",
        "_net/connecting/replacing.py",
        "            if self._refusals.are_pending and self._former:\n",
        "            if False:\n",
        "A mistyped new password closes every connection, though all of them were still accepted.",
        f"{_NEW}::test_refused_credentials_leave_the_other_connections",
    ),
    _mutant(
        "pause-of-the-former-credentials",
        "_net/connecting/addresses.py",
        "        self._refusals.forget()\n",
        "",
        "The right password waits up to 30 seconds for the pause that the wrong one has caused.",
        f"{_NEW}::test_refused_credentials_leave_the_other_connections",
    ),
    _mutant(
        "token-of-the-former-provider",
        "_net/connecting/addresses.py",
        "        self._security.adopt_credentials(config)\n",
        "",
        "A new provider of tokens is never asked.",
        f"{_NEW}::test_a_provider_of_tokens_is_replaced",
    ),
    _mutant(
        "line-end-in-the-password",
        "_net/securing/secrets.py",
        '.removesuffix("\\n")',
        "",
        "A password file that an editor wrote ends with a line end, which is sent as a part of the password.",
        f"{_SECRETS}::test_each_place_is_read_each_time",
    ),
    _mutant(
        "literal-secret-stays-in-the-frames",
        "config/producer.py",
        "    return row.kind.check(values.pop(name) if row.hides else values[name])\n",
        "    return row.kind.check(values[name])\n",
        "A debugger or an error report shows the password of a configuration that was refused.",
        f"{_SETTINGS}::test_no_error_shows_a_secret",
    ),
    _mutant(
        "password-in-clear-without-permission",
        "config/security/conflicts.py",
        '    if in_clear and not fields["allow_plaintext_credentials"]:\n',
        "    if False:\n",
        "PLAIN sends the password over a connection that is not encrypted.",
        f"{_SETTINGS}::test_settings_that_do_not_fit",
    ),
    _mutant(
        "refused-password-tried-at-each-broker",
        "_net/cluster/control.py",
        "                if is_refused_everywhere(error):\n",
        "                if False:\n",
        "Each broker is asked with the same wrong password, which may lock the account (S41).",
        f"{_REFUSED}::test_callers_learn_of_a_refusal_at_once",
    ),
    _mutant(
        "attempts-without-a-pause-after-a-refusal",
        "_net/connecting/refusals.py",
        "            if self._count:\n                await self._wait(stack)\n",
        "",
        "A wrong password is tried as often as a broker that is down (S41).",
        f"{_REFUSED}::test_the_pauses_grow",
    ),
    _mutant(
        "a-pause-for-each-caller-behind-a-refusal",
        "_net/connecting/refusals.py",
        "        if self._count > count and self._newest is not None:\n",
        "        if False:\n",
        "Each of many brokers' dials waits for a pause of its own, and the last caller is told after minutes.",
        f"{_REFUSED}::test_a_refusal_is_that_of_all_attempts_that_wait",
    ),
    _mutant(
        "refusal-kept-until-the-time-limit",
        "_net/cluster/metadata_task.py",
        "            self.machines.admission.refuse_without_metadata(lambda _call: copy.copy(error))\n",
        "",
        "A call waits for its whole time while every broker refuses the client.",
        f"{_REFUSED}::test_callers_learn_of_a_refusal_at_once",
    ),
    _mutant(
        "advertised-broker-looked-up",
        "_net/connecting/dialing.py",
        "    require_allowed(endpoint, config.allowed_brokers, config.bootstrap_servers)\n",
        "",
        "A cluster leads its producers to any address of their network (S23).",
        f"{_ALLOWED}::test_a_refused_broker_is_not_looked_up",
    ),
    _mutant(
        "link-out-of-the-allowed-folder",
        "config/providers.py",
        "found = Path(path).resolve(strict=True) if",
        "found = Path(path) if",
        "A reference in a properties file reads any file, by a link or by two dots (CVE-2024-31141).",
        f"{_PROVIDERS}::test_paths_that_are_refused",
    ),
    _mutant(
        "replaced-value-shown",
        "config/properties.py",
        "hides = name in replaced_ones or (row is not None and row.hides)",
        "hides = row is not None and row.hides",
        "A reference to a secret in the wrong setting shows the secret in the error.",
        f"{_PROVIDERS}::test_a_replaced_value_is_not_shown",
    ),
    _mutant(
        "token-outlives-its-credentials",
        "auth/msk.py",
        "else min(_LIFE, int(credentials.expires_at - now))",
        "else _LIFE",
        "A token of Amazon MSK is used after the credentials that signed it have expired.",
        f"{_MSK}::test_credentials_that_are_given",
    ),
    _mutant(
        "signature-in-der",
        "security/tokens/signing.py",
        "        numbers = decode_dss_signature(key.sign(content, ec.ECDSA(SHA256())))\n",
        "        return key.sign(content, ec.ECDSA(SHA256()))\n",
        "An assertion has the signature in the form of certificates, and identity providers refuse it.",
        f"{_ASSERTIONS}::test_signatures",
    ),
    _mutant(
        "chain-before-certificate",
        "security/stores/pkcs12.py",
        "    entries = (store.cert, *store.additional_certs)\n",
        "    entries = (*store.additional_certs, store.cert)\n",
        "The certificate of the authority is presented in place of the client's own.",
        f"{_PKCS12}::test_the_certificate_of_the_key_comes_first",
    ),
)
