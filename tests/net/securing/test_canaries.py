"""One search for secrets in all that a secured run leaves: logs, errors, reprs, pickles, warnings, files, lists of processes."""

from __future__ import annotations

import asyncio
import base64
import gc
import json
import logging
import pickle
from asyncio.subprocess import PIPE
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote_plus

import attrs
import pytest

from aioproducer import Producer, ProducerConfig, Secret, SecretFile
from aioproducer.testing import EmbeddedKafka, Fault, unsecured_token
from tests.certificates import Authority, Issued
from tests.cli.program import ended, start
from tests.net.conftest import QUICK
from tests.net.securing.token_server import TokenServer, answer, http
from tests.reports import report

USER: Final = "alice"
PASSWORD: Final = "canary-pässword/+="
WRONG: Final = "canary-wrong-word"
CLIENT_SECRET: Final = "canary-client secret"
KEY_PASSWORD: Final = "canary-key-word"
VALUE: Final = "canary-value-of-a-record"
MANY: Final = 60
OF_THE_BROKER: Final = ("aioproducer.testing", "aioproducer._wire.messages")
AROUND: Final = 300
MODULES: Final = "org.apache.kafka.common.security"
LIMITS: Final = {"request_timeout_ms": 1_000, "delivery_timeout_ms": 1_500, "max_block_ms": 1_000}


def forms(secret: str) -> set[str]:
    """The texts in which a secret could be shown."""
    raw = secret.encode()
    return {
        secret,
        quote_plus(secret),
        json.dumps(secret)[1:-1],
        ascii(secret)[1:-1],
        raw.hex(),
        base64.b64encode(raw).decode(),
        base64.b64encode(f"\0{USER}\0{secret}".encode()).decode(),
        repr(raw)[2:-1],
    }


@attrs.define(eq=False)
class Left(logging.Handler):
    """All that a run leaves; it is a handler of logs as well."""

    secrets: set[str] = attrs.field(factory=set)
    texts: set[str] = attrs.field(factory=set)
    errors: int = 0

    def __attrs_post_init__(self) -> None:
        super().__init__(logging.DEBUG)
        self.setFormatter(logging.Formatter("%(message)s"))

    def emit(self, record: logging.LogRecord) -> None:
        """A line of the log, its parts, and the locals of its error."""
        self.texts |= {self.format(record), repr(record.args)}
        if record.exc_info is not None and record.exc_info[1] is not None:
            self.texts.add(report(record.exc_info[1]))

    def error(self, error: BaseException) -> None:
        """All that an error reporter shows."""
        self.errors += 1
        self.texts |= {str(error), repr(error), repr(error.args), report(error)}

    def objects(self) -> None:
        """The repr of each object of the library, and of what the loop has; the embedded Kafka knows the passwords."""
        for one in gc.get_objects():
            module = str(getattr(type(one), "__module__", ""))
            # The embedded Kafka has the users, and keeps the requests that it was sent.
            if module.startswith("aioproducer.") and not module.startswith(OF_THE_BROKER):
                self.texts.add(repr(one))
        self.texts.update(map(repr, asyncio.all_tasks()))

    def search(self) -> None:
        """No secret is in any text."""
        shown = {
            text[max(0, text.index(form) - AROUND) : text.index(form) + AROUND]
            for form in set().union(*map(forms, self.secrets))
            for text in self.texts
            if form in text
        }
        assert shown == set()


@pytest.fixture
def left(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Left:
    """Everything is recorded, and temporary files have a folder of their own."""
    (tmp_path / "temporary").mkdir()
    monkeypatch.setenv("TMPDIR", str(tmp_path / "temporary"))
    monkeypatch.setattr("tempfile.tempdir", None)
    return Left({PASSWORD, WRONG, CLIENT_SECRET, KEY_PASSWORD, VALUE})


@attrs.define(eq=False)
class Run:
    """A cluster, its files, and everything that the run leaves."""

    left: Left
    folder: Path
    authority: Authority
    client: Issued
    kafka: EmbeddedKafka
    server: TokenServer

    def file(self, name: str, text: str) -> str:
        """A file of the user, which may have secrets."""
        path = self.folder / "secrets" / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
        return str(path)

    @property
    def tls(self) -> dict[str, Any]:
        """The key of the client is encrypted."""
        store = self.client.encrypted_key(KEY_PASSWORD) + self.client.certificate.read_text()
        return {
            "security_protocol": "SASL_SSL",
            "ssl_truststore_certificates": self.authority.own.certificate.read_text(),
            "ssl_keystore_location": self.file("client.pem", store),
            "ssl_key_password": KEY_PASSWORD,
            **QUICK,
            **LIMITS,
        }

    async def attempt(self, *faults: Callable[[], Fault], **given: Any) -> None:
        """Construct, connect and send, with each fault in turn, until a session ends; whatever fails is recorded."""
        try:
            config = ProducerConfig(self.kafka.bootstrap_servers, **given)
            with suppress(TypeError):
                self.left.texts.add(repr(pickle.dumps(config)))
            async with Producer.from_config(config) as producer:
                await self.send(producer)
                for fault in faults:
                    self.kafka.faults.drop_connections(1)
                    with fault():
                        await self.send(producer)
                    # The pause behind a refusal ends.
                    names = {"sasl_password": "password", "sasl_token_provider": "token_provider"}
                    producer.set_credentials(
                        **{names[name]: value for name, value in given.items() if name in names}
                    )
                while faults and not sum(one.reauthentications for one in producer.stats().connections):
                    await self.send(producer)
                self.left.texts |= {repr(producer), repr(producer.stats()), repr(producer.health())}
                if faults:
                    self.left.objects()
        except Exception as error:  # noqa: BLE001  # any error may show a secret
            self.left.error(error)

    async def send(self, producer: Producer[Any, Any]) -> None:
        """A record with the canary in each part, and one that is wrong."""
        value = VALUE.encode()
        try:
            await producer.ready(2)
            await producer.send_and_wait("orders", value, key=value, headers={"a": value})
            await producer.send("orders", value, timestamp=VALUE)  # type: ignore[arg-type]
        except Exception as error:  # noqa: BLE001  # any error may show a secret
            self.left.error(error)


@pytest.fixture
async def run(
    left: Left, tmp_path: Path, authority: Authority, client_identity: Issued, broker_identity: Issued
) -> AsyncIterator[Run]:
    """A cluster with mutual TLS and short sessions, and an identity provider that repeats what it gets."""
    logs = [logging.getLogger(name) for name in ("aioproducer", "asyncio", "concurrent.futures")]
    levels = [log.level for log in logs]
    for log in logs:
        log.addHandler(left)
        log.setLevel(logging.DEBUG)
    users = {USER: PASSWORD}
    context = broker_identity.context_of_broker(authority.own.certificate)
    server = TokenServer([answer(401, error="invalid_client", error_description=CLIENT_SECRET)])
    async with (
        EmbeddedKafka(tls=context, users=users, session_lifetime=1.5) as kafka,
        server.running(authority.issue("idp")),
    ):
        kafka.create_topic("orders", 1)
        yield Run(left, tmp_path, authority, client_identity, kafka, server)
    for log, level in zip(logs, levels, strict=True):
        log.removeHandler(left)
        log.setLevel(level)


async def test_nothing_shows_a_secret(run: Run, recwarn: pytest.WarningsRecorder) -> None:
    """Each mechanism in each failure, its settings in each form, and the command line: 0 hits."""
    await by_passwords(run)
    await by_tokens(run)
    await with_wrong_files(run)
    await by_properties(run)
    await on_the_command_line(run)
    left = run.left
    left.texts |= {str(warning.message) for warning in recwarn}
    for path in (run.folder / "temporary").rglob("*"):
        if path.is_file():
            left.texts.add(path.read_bytes().decode(errors="replace"))
    assert left.errors > MANY
    left.search()


def faults_of(kafka: EmbeddedKafka, secret: str, message: str = "") -> tuple[Callable[[], Fault], ...]:
    """A refusal, words and nonsense that repeat the password, silence, an end, and an error for the records."""
    faults = kafka.faults
    sent = base64.b64encode(message.encode()).decode()

    def refused(answer: Any) -> Any:
        return answer._replace(error_code=58, error_message=f"no {secret} in {sent}")

    return (
        lambda: faults.alter(refused, api="SaslAuthenticate"),
        lambda: faults.sasl(1),
        lambda: faults.sasl(1, lambda token: token + PASSWORD.encode()),
        lambda: faults.garbage(PASSWORD.encode() * 9, api="SaslAuthenticate"),
        lambda: faults.cut(api="SaslAuthenticate"),
        lambda: faults.garbage(VALUE.encode() * 9, api="Produce"),
        lambda: faults.error("INVALID_RECORD"),
    )


async def by_passwords(run: Run) -> None:
    """Right and wrong ones, in each place."""

    def raising() -> str:
        raise LookupError(PASSWORD)

    path = Path(run.file("password", f"{PASSWORD}\n"))
    for mechanism, message in (("PLAIN", f"\0{USER}\0{PASSWORD}"), ("SCRAM-SHA-512", "")):
        given = run.tls | {"sasl_mechanism": mechanism, "sasl_username": USER}
        await run.attempt(*faults_of(run.kafka, PASSWORD, message), **given, sasl_password=SecretFile(path))
        for password in (WRONG, Secret(WRONG), raising, lambda: Secret(PASSWORD), PASSWORD.encode):
            await run.attempt(**given, sasl_password=password)
        await run.attempt(**given, sasl_password=PASSWORD, sasl_token_provider=WRONG)
    changes: tuple[dict[str, Any], ...] = (
        {"password": WRONG},
        {"token_provider": PASSWORD},
        {"password": PASSWORD},
    )
    async with Producer(run.kafka.bootstrap_servers, **given, sasl_password=PASSWORD) as producer:
        for change in changes:
            try:
                producer.set_credentials(**change)
                await producer.send_and_wait("orders", VALUE.encode())
            except Exception as error:  # noqa: BLE001  # it may show a secret
                run.left.error(error)


async def by_tokens(run: Run) -> None:
    """A provider that fails in each way, and an identity provider that repeats the secret."""
    given = run.tls | {"sasl_mechanism": "OAUTHBEARER"}
    token = unsecured_token(USER)
    run.left.secrets.add(token)

    def raising() -> str:
        raise LookupError(token)

    for provider in (raising, token.encode, lambda: f"{token} {WRONG}", lambda: (token, WRONG)):
        await run.attempt(**given, sasl_token_provider=provider)
    await run.attempt(*faults_of(run.kafka, token), **given, sasl_token_provider=lambda: token)
    module = f"{MODULES}.oauthbearer.OAuthBearerLoginModule required"
    given |= {
        "sasl_oauthbearer_token_endpoint_url": run.server.url,
        "sasl_oauthbearer_client_credentials_client_id": USER,
        "sasl_oauthbearer_client_credentials_client_secret": CLIENT_SECRET,
        "sasl_jaas_config": f'{module} ssl.truststore.location="{run.authority.own.certificate}";',
        "sasl_login_retry_backoff_max_ms": 200,
    }
    location = f"Location: https://localhost/{quote_plus(CLIENT_SECRET)}"
    for reply in (
        answer(401, error="invalid_client", error_description=CLIENT_SECRET),
        answer(500, error="server_error", secret=CLIENT_SECRET),
        answer(401, error=f"no {CLIENT_SECRET}"),
        answer(200, access_token=f"{token} {CLIENT_SECRET}"),
        answer(200, access_token=token, expires_in=CLIENT_SECRET),
        http(302, CLIENT_SECRET.encode(), location),
        http(200, f"<html>{CLIENT_SECRET}</html>".encode()),
        CLIENT_SECRET.encode(),
    ):
        run.server.answers[:] = [reply]
        await run.attempt(**given)


async def with_wrong_files(run: Run) -> None:
    """A wrong password of the key, stores that are damaged, and a trust store in place of a key store."""
    key = run.client.key.read_text()
    run.left.secrets.add(key.splitlines()[1])
    given = run.tls | {"sasl_mechanism": "PLAIN", "sasl_username": USER, "sasl_password": PASSWORD}
    await run.attempt(**given | {"ssl_key_password": WRONG})
    for name, text in {
        "short": run.client.pem[:-80],
        "without a certificate": key,
        "of another": key + run.authority.own.certificate.read_text(),
        "damaged": key.replace("A", "B", 3) + run.client.certificate.read_text(),
    }.items():
        await run.attempt(**given | {"ssl_keystore_location": run.file(name, text)})
        await run.attempt(**given | {"ssl_truststore_certificates": text})
    others = {name: value for name, value in given.items() if name != "ssl_keystore_location"}
    await run.attempt(**others, ssl_keystore_key=key, ssl_keystore_certificate_chain=key)
    async with Producer(run.kafka.bootstrap_servers, **given) as producer:
        run.file("client.pem", run.client.pem[:-80])
        try:
            await producer.reload_certificates()
        except Exception as error:  # noqa: BLE001  # it may show a secret
            run.left.error(error)


async def by_properties(run: Run) -> None:
    """JAAS strings and properties with a mistake, and references without a provider."""
    module = f"{MODULES}.plain.PlainLoginModule"
    good = f'{module} required username="{USER}" password="{PASSWORD}"'
    for jaas in (
        good,
        f"{good};;",
        f"{good} {WRONG};",
        f'{module} "{PASSWORD}" required;',
        f"{module} {PASSWORD} password={PASSWORD};",
        f'{PASSWORD} required password="{PASSWORD}";',
        f'{module} required password="{PASSWORD};',
        f"{module} required password=${{file:/run/{WRONG}:{PASSWORD}}};",
    ):
        properties = {"bootstrap.servers": run.kafka.bootstrap_servers, "security.protocol": "SASL_SSL"}
        properties |= {"sasl.mechanism": "PLAIN", "sasl.jaas.config": jaas, "sasl.password ": PASSWORD}
        properties |= {"ssl.keystore.key": PASSWORD, "ssl.cafile": PASSWORD, "sasl.plain.password": PASSWORD}
        for source in (
            properties,
            run.file("wrong.properties", "".join(f"{n}={v}\n" for n, v in properties.items())),
        ):
            try:
                ProducerConfig.from_properties(source)
            except Exception as error:  # noqa: BLE001  # it may show a secret
                run.left.error(error)
    for text in texts_of_files(run, good):
        path = run.file("stray.properties", text)
        for make in (ProducerConfig.from_properties, Producer.from_properties):
            for source in (path, text):
                try:
                    make(source)
                except Exception as error:  # noqa: BLE001  # it may show a secret
                    run.left.error(error)


def texts_of_files(run: Run, jaas: str) -> Iterator[str]:
    """Files that are no properties: values of several lines without backslashes, and lost line ends."""
    key = run.client.key.read_text()
    run.left.secrets.update(line for line in key.splitlines() if not line.startswith("-----"))
    given = (
        f"bootstrap.servers={run.kafka.bootstrap_servers}\nsecurity.protocol=SASL_SSL\nsasl.mechanism=PLAIN\n"
    )
    certificate = run.client.certificate.read_text()
    yield f"{given}ssl.keystore.certificate.chain={certificate}ssl.keystore.key={key}linger.ms=-1\n"
    yield f"{given}ssl.keystore.key=\\\n\n{key}{WRONG}\n{WRONG}=\n"
    yield f"{given}ssl.key.pem={key}{key}".replace("-----END PRIVATE KEY-----", "")
    yield key.partition("\n")[2]
    words = jaas.replace(" ", "\n")
    yield f"{given}sasl.jaas.config={words};\n"
    yield f"{given}sasl.username={USER}\nsasl.password=\\ \n{WRONG}\n{PASSWORD}\n"
    yield f"{given}acks=9\nsasl.jaas.config={jaas};\n".replace("\n", " ")
    yield f"linger.ms=5\nsasl.password={PASSWORD}\n".replace("\n", " ")
    yield f"{given}sasl.username={USER}\nsasl.password=a${{{WRONG}:{WRONG}}}\n"


async def on_the_command_line(run: Run) -> None:
    """`produce` and `perf`: their output, their files, and their line in the list of processes."""
    module = f"{MODULES}.scram.ScramLoginModule required"
    for password in (PASSWORD, WRONG):
        jaas = f'{module} username="{USER}" password="{password}";'
        given = {
            "bootstrap.servers": run.kafka.bootstrap_servers,
            "security.protocol": "SASL_SSL",
            "sasl.mechanism": "SCRAM-SHA-256",
            "sasl.jaas.config": jaas,
            "ssl.truststore.location": run.authority.own.certificate,
            "ssl.keystore.location": run.file(
                "client.pem", run.client.encrypted_key(KEY_PASSWORD) + run.client.certificate.read_text()
            ),
            "ssl.key.password": KEY_PASSWORD,
        }
        config = run.file("client.properties", "".join(f"{name}={value}\n" for name, value in given.items()))
        picture = str(run.folder / "temporary" / "latencies.svg")
        size = ("--num-records", "100", "--record-size", "100", "--throughput", "-1")
        command = (
            ("perf", "--command-config", config, "--topic", "orders", *size, "--plot", picture)
            if password == PASSWORD
            else ("produce", "--config", config, "-t", "orders", "--wait", "3")
        )
        process = await start(*command, stdin=PIPE)
        line = await asyncio.to_thread(Path(f"/proc/{process.pid}/cmdline").read_bytes)
        done = await ended(process, VALUE.encode())
        assert (done.code == 0) == (password == PASSWORD), done
        run.left.texts |= {line.decode(), done.out, done.err}
