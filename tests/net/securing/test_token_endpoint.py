"""Tokens of a token endpoint: the requests, the answers, the faults, and the secrets that no text shows."""

from __future__ import annotations

import asyncio
import base64
import logging
import random
import socket
import traceback
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

import pytest

from aioproducer import AuthenticationError, ConfigurationError, ProducerConfig, SecretEnv, SecretFile
from aioproducer._net.log import log_of
from aioproducer._net.securing import configured, token_endpoint
from aioproducer._net.securing.configured import renewal_of
from aioproducer._net.securing.token_endpoint import TokenEndpoint
from aioproducer._net.securing.tokens import TokenSource
from tests.certificates import Authority
from tests.net.securing.token_server import TokenServer, answer, http

CANARY = "canary-8"
GOOD = answer(access_token="good.token", expires_in=3600)
MODULE = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required"


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority.make(tmp_path_factory.mktemp("authority"))


@pytest.fixture
async def server(authority: Authority) -> AsyncIterator[TokenServer]:
    async with TokenServer([GOOD]).running(authority.issue("idp")) as running:
        yield running


def config(server: TokenServer, authority: Authority, **settings: Any) -> ProducerConfig:
    """The settings of a client whose JAAS string has the trust store of the endpoint."""
    given: dict[str, Any] = {
        "security_protocol": "SASL_SSL",
        "sasl_mechanism": "OAUTHBEARER",
        "sasl_oauthbearer_token_endpoint_url": server.url,
        "sasl_oauthbearer_client_credentials_client_id": "alice",
        "sasl_oauthbearer_client_credentials_client_secret": CANARY,
        "sasl_login_retry_backoff_ms": 1,
        "sasl_jaas_config": f'{MODULE} ssl.truststore.location="{authority.own.certificate}";',
    }
    given = {name: value for name, value in (given | settings).items() if value is not None}
    return ProducerConfig("localhost:9092", **given)


def source(settings: ProducerConfig, clock: Any = lambda: 1_000_000.0) -> TokenSource:
    """The tokens of a producer with these settings."""
    log, loop = log_of("tests"), asyncio.get_running_loop()
    endpoint = TokenEndpoint(settings, log, loop, clock=clock)
    return TokenSource(
        endpoint.fetch,
        endpoint.name,
        {},
        log,
        random.Random(1),
        renewal=renewal_of(settings),
        clock=clock,
    )


async def refused(settings: ProducerConfig) -> AuthenticationError:
    """The error of an authentication. No frame of the library has the secret."""
    with pytest.raises(AuthenticationError) as caught:
        await source(settings).credentials()
    told = traceback.TracebackException.from_exception(caught.value, capture_locals=True)
    ours = [str(frame.locals) for frame in told.stack if "/aioproducer/" in frame.filename]
    assert ours
    for hidden in (CANARY, base64.b64encode(f"alice:{CANARY}".encode()).decode()):
        assert hidden not in str(ours) + str(caught.value) + repr(caught.value.args)
    assert caught.value.__context__ is None
    assert caught.value.reason == "token"
    return caught.value


def form_of(request: str) -> dict[str, str]:
    """The fields of the body."""
    return {name: values[0] for name, values in parse_qs(request.partition("\r\n\r\n")[2]).items()}


async def test_client_credentials(server: TokenServer, authority: Authority) -> None:
    """One POST with the id and the secret in Base64 (KIP-768); the token is kept for its life."""
    tokens = source(config(server, authority, sasl_oauthbearer_scope="a b"))
    given = await asyncio.gather(*(tokens.credentials() for _ in range(3)))
    assert {each.token.reveal() for each in given} == {"good.token"}
    (request,) = server.requests
    assert request.startswith("POST /oauth2/token?tenant=1 HTTP/1.1\r\n")
    assert f"\r\nHost: localhost:{server.port}\r\n" in request
    basic = base64.b64encode(f"alice:{CANARY}".encode()).decode()
    assert f"\r\nAuthorization: Basic {basic}\r\n" in request
    assert form_of(request) == {"grant_type": "client_credentials", "scope": "a b"}


@pytest.mark.parametrize("is_encoded", [False, True])
async def test_the_encoding_of_id_and_secret(
    server: TokenServer, authority: Authority, is_encoded: bool
) -> None:
    """`header_urlencode` encodes both before Base64, as RFC 6749 says and few servers do."""
    settings = config(
        server,
        authority,
        sasl_oauthbearer_client_credentials_client_id="a:b",
        sasl_oauthbearer_client_credentials_client_secret="ü +",
        sasl_oauthbearer_header_urlencode=is_encoded,
    )
    await source(settings).credentials()
    encoded = server.requests[0].partition("Basic ")[2].partition("\r\n")[0]
    assert base64.b64decode(encoded).decode() == ("a%3Ab:%C3%BC+%2B" if is_encoded else "a:b:ü +")


@pytest.mark.parametrize("is_encoded", [False, True])
async def test_a_secret_with_a_byte_that_is_not_utf_8(
    server: TokenServer, authority: Authority, is_encoded: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The environment has a surrogate for it. It is sent, and no error has the secret."""
    monkeypatch.setenv("ODD_SECRET", "caf\udce9")
    settings = config(
        server,
        authority,
        sasl_oauthbearer_client_credentials_client_id="a",
        sasl_oauthbearer_client_credentials_client_secret=SecretEnv("ODD_SECRET"),
        sasl_oauthbearer_header_urlencode=is_encoded,
    )
    await source(settings).credentials()
    encoded = server.requests[0].partition("Basic ")[2].partition("\r\n")[0]
    found = base64.b64decode(encoded).decode(errors="surrogatepass")
    assert found == ("a:caf%ED%B3%A9" if is_encoded else "a:caf\udce9")


async def test_a_jaas_string_and_a_secret_file(
    server: TokenServer, authority: Authority, tmp_path: Path
) -> None:
    """Java's options stand for the settings; a file is read again for each token (S47)."""
    jaas = f'{MODULE} clientId="bob" scope="s" ssl.truststore.location="{authority.own.certificate}";'
    path = tmp_path / "secret"
    path.write_text("first\n")
    settings = config(
        server,
        authority,
        sasl_jaas_config=jaas,
        sasl_oauthbearer_client_credentials_client_id=None,
        sasl_oauthbearer_client_credentials_client_secret=SecretFile(path),
    )
    server.answers[:] = [answer(access_token="a")]
    tokens = source(settings)
    for secret in ("first", "second"):
        path.write_text(secret)
        await tokens.credentials()
        assert base64.b64encode(f"bob:{secret}".encode()).decode() in server.requests[-1]
    assert form_of(server.requests[0])["scope"] == "s"


@pytest.mark.parametrize("grant", ["DefaultJwtRetriever", "JwtBearerJwtRetriever"])
async def test_an_assertion_of_a_file(
    server: TokenServer, authority: Authority, tmp_path: Path, grant: str
) -> None:
    """It takes the place of the secret (KIP-1258), or is the grant itself (KIP-1139)."""
    path = tmp_path / "assertion"
    path.write_text("a.b.c\n")
    settings = config(
        server,
        authority,
        sasl_oauthbearer_client_credentials_client_secret=None,
        sasl_oauthbearer_assertion_file=str(path),
        sasl_oauthbearer_jwt_retriever_class=grant,
    )
    await source(settings).credentials()
    assert "Authorization" not in server.requests[0]
    urn = "urn:ietf:params:oauth:"
    assert (
        form_of(server.requests[0])
        == {
            "DefaultJwtRetriever": {
                "grant_type": "client_credentials",
                "client_assertion_type": f"{urn}client-assertion-type:jwt-bearer",
                "client_assertion": "a.b.c",
                "client_id": "alice",
            },
            "JwtBearerJwtRetriever": {"grant_type": f"{urn}grant-type:jwt-bearer", "assertion": "a.b.c"},
        }[grant]
    )


@pytest.mark.parametrize(
    "good",
    [
        GOOD,
        answer(201, id_token="good.token", expires_in="3600"),
        b'HTTP/1.1 200 OK\r\n\r\n{"access_token":"good.token"}',
        b'HTTP/1.0 200\r\ntransfer-encoding: Chunked\r\n\r\n5;x=1\r\n{"acc\r\n18\r\ness_token":"good.token"}\r\n0\r\n\r\n',
        b"HTTP/1.1 100 Continue\r\n\r\n" + GOOD,
    ],
    ids=["length", "id_token", "until the end", "chunks", "continue"],
)
async def test_answers_with_a_token(server: TokenServer, authority: Authority, good: bytes) -> None:
    """Each way of HTTP/1.1 to end a body."""
    server.answers[:] = [good]
    assert (await source(config(server, authority)).credentials()).token.reveal() == "good.token"


async def test_an_answer_ends_where_it_says(server: TokenServer, authority: Authority) -> None:
    """A server that keeps the connection open holds up nothing."""
    server.keeps_open = True
    assert (await source(config(server, authority)).credentials()).token.reveal() == "good.token"


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        (answer(401, error="invalid_client", error_description=CANARY), "answered 401: invalid_client"),
        (answer(400, error=f"a\nb{'x' * 999}"), r"answered 400: a\\nbxxx"),
        (answer(404, error=5), "answered 404 "),
        (answer(401, error=f"no client with {CANARY}"), r"answered 401: no client with \*\*\*"),
        (http(302, b"", "Location: https://other.example"), "redirects are not followed"),
        (http(200, b"<html>"), "no JSON object"),
        (http(200, b"[" * 60_000), "no JSON object"),
        (http(200, b""), "no JSON object"),
        (http(200, b"[1]"), "no JSON object"),
        (answer(access_token=5), "without access_token"),
        (answer(token=CANARY), "without access_token"),
        (answer(access_token=f"{CANARY} b"), "characters that a bearer token cannot have"),
        (http(200, b"x" * 65_537), "more than 65536 bytes"),
        (b"HTTP/1.1 200 OK\r\n\r\n" + b"x" * 70_000, "more than 65536 bytes"),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nfffff\r\n", "more than 65536 bytes"),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nno\r\n", "a chunk without a size"),
        (b"HTTP/1.1 200 OK\r\nX: " + b"x" * 70_000, "a head of more than"),
        (b"HTTP/1.1 200 OK\r\n" + b"a: b\r\n" * 501 + b"\r\n", "more than 500 fields"),
        (b"SSH-2.0\r\n\r\n", "is not HTTP"),
    ],
)
async def test_answers_without_a_token(
    server: TokenServer, authority: Authority, wrong: bytes, words: str
) -> None:
    """Each is final for this authentication: one request. Only the word `error` of an answer is shown (S13)."""
    server.answers[:] = [wrong]
    error = await refused(config(server, authority))
    assert error.mechanism == "OAUTHBEARER"
    with pytest.raises(AuthenticationError, match=words):
        raise error
    assert len(str(error)) < 400
    assert len(server.requests) == 1


@pytest.mark.parametrize(
    "fault", [answer(503), answer(429), answer(408), b"", b"HTTP/1.1 200 OK\r\n", GOOD[:-3]]
)
async def test_faults_that_are_tried_again(server: TokenServer, authority: Authority, fault: bytes) -> None:
    """A server that is busy, and a connection that is cut anywhere."""
    server.answers[:] = [fault, fault, GOOD]
    assert (await source(config(server, authority)).credentials()).token.reveal() == "good.token"
    assert len(server.requests) == 3


async def test_faults_that_do_not_end(server: TokenServer, authority: Authority) -> None:
    """The attempts end with `sasl_login_retry_backoff_max_ms`, and the error says the last reason."""
    server.answers[:] = [answer(500, error="busy")]
    error = await refused(config(server, authority, sasl_login_retry_backoff_max_ms=500))
    assert "answered 500: busy" in str(error)
    assert error.retriable
    assert len(server.requests) > 1


async def test_no_pause_by_the_settings(server: TokenServer, authority: Authority) -> None:
    """An endpoint that is out of order is not asked again without a pause."""
    server.answers = [b"HTTP/1.1 503 Busy\r\n\r\n"]
    settings = {"sasl_login_retry_backoff_ms": 0, "sasl_login_retry_backoff_max_ms": 400}
    await refused(config(server, authority, **settings))
    assert 2 <= len(server.requests) <= 4


@pytest.mark.parametrize("part", [None, GOOD[:-3]], ids=["nothing", "a part"])
async def test_an_endpoint_that_hangs(
    server: TokenServer, authority: Authority, part: bytes | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All attempts together have 10 seconds, also where a part of an answer has come."""
    monkeypatch.setattr(token_endpoint, "LONGEST_CALL", 0.3)
    server.answers[:], server.keeps_open = [part], True
    error = await refused(config(server, authority))
    assert "gave nothing within 0.3 s" in str(error)


@pytest.mark.parametrize("part", [b"", b"HTTP/1.1 100 Continue\r\n\r\n" * 999], ids=["answer", "continue"])
async def test_an_answer_that_trickles(
    server: TokenServer, authority: Authority, part: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A byte at a time extends no limit, neither in an answer nor before it (S12)."""
    monkeypatch.setattr(token_endpoint, "LONGEST_CALL", 0.3)
    server.answers[:], server.pause = [part + GOOD], 0.02
    error = await refused(config(server, authority))
    assert "gave nothing within 0.3 s" in str(error)
    assert len(server.requests) == 1


@pytest.mark.parametrize("framing", [b"", b"Content-Length: 10000000\r\n", b"Transfer-Encoding: chunked\r\n"])
async def test_an_answer_of_10_megabytes(server: TokenServer, authority: Authority, framing: bytes) -> None:
    """It is refused, however its length is given (S12)."""
    body = b"x" * 10_000_000
    if b"chunked" in framing:
        body = b"".join(b"8000\r\n" + bytes(0x8000) + b"\r\n" for _ in range(305)) + b"0\r\n\r\n"
    server.answers[:] = [b"HTTP/1.1 200 OK\r\n" + framing + b"\r\n" + body]
    assert "more than 65536 bytes" in str(await refused(config(server, authority)))
    assert len(server.requests) == 1


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
@pytest.mark.parametrize("scheme", ["https", "http", "file"])
async def test_redirects(server: TokenServer, authority: Authority, status: int, scheme: str) -> None:
    """None is followed: the target would get the secret (S12)."""
    async with TokenServer([GOOD]).running(authority.issue("idp")) as other:
        place = other.url.replace("https", scheme)
        server.answers[:] = [http(status, b"", f"Location: {place}")]
        assert "redirects are not followed" in str(await refused(config(server, authority)))
        assert (len(server.requests), other.requests) == (1, [])


async def test_the_time_for_an_answer(server: TokenServer, authority: Authority) -> None:
    """`sasl_login_read_timeout_ms` gives up one attempt, and the next one may have an answer."""
    server.answers[:] = [None, GOOD]
    settings = config(server, authority, sasl_login_read_timeout_ms=50)
    assert (await source(settings).credentials()).token.reveal() == "good.token"


async def test_a_certificate_of_another_authority(server: TokenServer, tmp_path: Path) -> None:
    """The trust store of the JAAS string decides, and no secret is sent before (S12, S24)."""
    error = await refused(config(server, Authority.make(tmp_path)))
    assert "has a certificate that cannot be verified" in str(error)
    assert server.requests == []


@pytest.mark.parametrize("given", ["a file", "text", "nothing"])
async def test_an_endpoint_that_wants_a_certificate_of_the_client(
    authority: Authority, tmp_path: Path, given: str
) -> None:
    """The key store is in the JAAS string too, as in Java."""
    client = authority.issue("orders")
    trusted = authority.own.certificate
    path = tmp_path / "client.pem"
    path.write_text(client.pem)
    chain, key = (one.read_text().replace("\n", "\\n") for one in (client.certificate, client.key))
    stores = {
        "a file": f'ssl.keystore.location="{path}"',
        "text": f'ssl.keystore.certificate.chain="{chain}" ssl.keystore.key="{key}"',
        "nothing": "",
    }
    async with TokenServer([GOOD]).running(authority.issue("idp"), trusted) as server:
        jaas = f'{MODULE} ssl.truststore.location="{trusted}" {stores[given]};'
        settings = config(server, authority, sasl_jaas_config=jaas)
        if given == "nothing":
            await refused(settings)
        else:
            assert (await source(settings).credentials()).token.reveal()
        assert len(server.requests) == (given != "nothing")


async def test_a_trust_store_that_is_missing(server: TokenServer, tmp_path: Path) -> None:
    """It is an error of the settings, which names the file."""
    jaas = f'{MODULE} ssl.truststore.location="{tmp_path}/no";'
    given = config(server, Authority.make(tmp_path / "a"), sasl_jaas_config=jaas)
    with pytest.raises(
        ConfigurationError, match=r"ssl\.truststore\.location of sasl_jaas_config=.*/no: No such"
    ):
        await source(given).credentials()


async def test_a_server_that_is_down(server: TokenServer, authority: Authority) -> None:
    """A refused connection is tried again, and named."""
    url = "https://localhost:1/token"
    settings = {"sasl_oauthbearer_token_endpoint_url": url, "sasl_login_retry_backoff_max_ms": 5}
    error = await refused(config(server, authority, **settings))
    assert "localhost:1 cannot be reached" in str(error)


async def test_a_token_is_renewed_before_it_ends(
    server: TokenServer, authority: Authority, caplog: pytest.LogCaptureFixture
) -> None:
    """At the part of its life that the settings name; while the endpoint fails, the present token is used."""
    now = 1_000_000.0
    server.answers[:] = [answer(access_token="first", expires_in=1000), answer(401, error="x")]
    settings = config(
        server, authority, sasl_login_refresh_window_factor=0.5, sasl_login_refresh_window_jitter=0.0
    )
    tokens = source(settings, lambda: now)
    await tokens.credentials()
    now += 499
    await tokens.credentials()
    assert len(server.requests) == 1
    now += 2
    with caplog.at_level(logging.WARNING, "aioproducer"):
        assert (await tokens.credentials()).token.reveal() == "first"
    assert len(server.requests) == 2
    assert "answered 401" in caplog.text
    assert "until it expires" in caplog.text


async def test_a_cancelled_request_leaves_no_connection(server: TokenServer, authority: Authority) -> None:
    """The next authentication asks again."""
    server.answers[:] = [None, GOOD]
    tokens = source(config(server, authority))
    first = asyncio.ensure_future(tokens.credentials())
    await server.asked.wait()
    first.cancel()
    assert (await asyncio.gather(first, return_exceptions=True))[0].__class__ is asyncio.CancelledError
    assert (await tokens.credentials()).token.reveal() == "good.token"


async def test_an_address_that_does_not_answer(
    server: TokenServer, authority: Authority, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each address has its share of the time, and the one that answered is tried first then."""
    silent = socket.create_server(("127.0.0.2", server.port))
    silent.setblocking(False)
    looked_up: list[int] = []

    async def look_up(host: str, port: int) -> list[Any]:
        looked_up.append(port)
        places = [(address, port) for address in ("127.0.0.2", "127.0.0.1")]
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", place) for place in places]

    monkeypatch.setattr("aioproducer._net.securing.https.look_up", look_up)
    settings = config(server, authority, sasl_login_connect_timeout_ms=1000)
    endpoint = TokenEndpoint(settings, log_of("tests"), asyncio.get_running_loop())
    with silent:
        for _ in range(2):
            assert (await endpoint.fetch()).problem == ""
        silent.accept()[0].close()
        with pytest.raises(BlockingIOError):
            silent.accept()
    assert looked_up == [server.port] * 2


@pytest.mark.parametrize("order", [("127.0.0.1", "127.0.0.2"), ("127.0.0.2", "127.0.0.1")])
async def test_a_certificate_says_more_than_silence(
    server: TokenServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, order: tuple[str, str]
) -> None:
    """Whether the address that does not answer is tried before the one with another certificate or after it."""

    async def look_up(host: str, port: int) -> list[Any]:
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, port)) for address in order]

    monkeypatch.setattr("aioproducer._net.securing.https.look_up", look_up)
    settings = config(server, Authority.make(tmp_path), sasl_login_connect_timeout_ms=3000)
    endpoint = TokenEndpoint(settings, log_of("tests"), asyncio.get_running_loop())
    with socket.create_server(("127.0.0.2", server.port)):
        given = await endpoint.fetch()
    assert "cannot be verified" in given.problem
    assert given.is_final


@pytest.mark.parametrize("setting", ["client_credentials_client_secret", "assertion_file"])
async def test_an_empty_secret_is_not_sent(
    server: TokenServer, authority: Authority, tmp_path: Path, setting: str
) -> None:
    """A file that is being written: a refusal may lock the account."""
    path = tmp_path / "secret"
    path.write_text(" \n")
    given: dict[str, Any] = {f"sasl_oauthbearer_{setting}": SecretFile(path)}
    if setting == "assertion_file":
        given = {
            f"sasl_oauthbearer_{setting}": str(path),
            "sasl_oauthbearer_client_credentials_client_secret": None,
        }
    with pytest.raises(ConfigurationError, match=f"sasl_oauthbearer_{setting}: {path} is empty"):
        await source(config(server, authority, **given)).credentials()
    assert server.requests == []


async def test_the_trust_store_of_the_system_is_read_again(
    server: TokenServer, authority: Authority, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An authority that is added to it is trusted without a restart."""
    trusted = tmp_path / "system.pem"
    trusted.write_text("")
    monkeypatch.setenv("SSL_CERT_FILE", str(trusted))
    # They are asked for when the module is imported.
    paths = configured._SYSTEM._replace(cafile=str(trusted), capath="")
    monkeypatch.setattr(configured, "_SYSTEM", paths)
    monkeypatch.setattr("aioproducer._net.tls.reloading.LOOK_EVERY", 0.0)
    settings = config(server, authority, sasl_jaas_config=None)
    endpoint = TokenEndpoint(settings, log_of("tests"), asyncio.get_running_loop())
    assert "cannot be verified" in (await endpoint.fetch()).problem
    trusted.write_text(authority.own.certificate.read_text())
    assert (await endpoint.fetch()).problem == ""
