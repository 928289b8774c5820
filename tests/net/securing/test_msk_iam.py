"""Tokens of Amazon MSK, compared with those of botocore's signer and of AWS's own package."""

from __future__ import annotations

import asyncio
import base64
import logging
import random
import sys
import threading
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, parse_qsl, urlsplit

import pytest
from aws_msk_iam_sasl_signer import MSKAuthTokenProvider
from botocore.credentials import CredentialProvider, Credentials
from hypothesis import given
from hypothesis import strategies as st

from aioproducer import AuthenticationError, ConfigurationError, ProducerConfig
from aioproducer._net.log import log_of
from aioproducer._net.securing.calling import UserFunctions
from aioproducer._net.securing.configured import iam_provider
from aioproducer._net.securing.protocol import security_of
from aioproducer._net.securing.tokens import TokenSource
from aioproducer.auth import AwsCredentials, Token, msk_iam
from aioproducer.auth.aws import presigned
from aioproducer.auth.msk import msk_token
from tests.reports import report

REGION = "eu-west-1"
KEY, CANARY = "AKIAEXAMPLE", "canary-7/+="
SERVER = f"b-1.orders.abc123.c2.kafka.{REGION}.amazonaws.com:9098"
MODULE = "software.amazon.msk.auth.iam.IAMLoginModule required"
TEXTS = st.text(st.characters(codec="utf-8", exclude_characters="\x00"), min_size=1, max_size=40)


class Fixed(CredentialProvider):  # type: ignore[misc]
    """A source of credentials for AWS's package."""

    def __init__(self, credentials: Credentials) -> None:
        self._credentials = credentials

    def load(self) -> Credentials:
        return self._credentials


def parameters(token: str) -> dict[str, str]:
    """The parameters of the URL that a token is."""
    url = base64.urlsafe_b64decode(token + "=" * (-len(token) % 4)).decode()
    parts = urlsplit(url)
    assert (parts.scheme, parts.netloc, parts.path) == ("https", f"kafka.{REGION}.amazonaws.com", "/")
    pairs = parse_qsl(parts.query, strict_parsing=True)
    assert len(dict(pairs)) == len(pairs)
    return dict(pairs)


@given(key=TEXTS, secret=TEXTS, session=st.none() | TEXTS)
def test_the_token_is_that_of_the_package_of_aws(key: str, secret: str, session: str | None) -> None:
    """Same parameters and same signature for any credentials; only the name of the client differs."""
    theirs, ends_at = MSKAuthTokenProvider.generate_auth_token_from_credentials_provider(
        REGION, Fixed(Credentials(key, secret, session))
    )
    expected = parameters(theirs)
    signed_at = datetime.strptime(expected["X-Amz-Date"], "%Y%m%dT%H%M%SZ").replace(tzinfo=UTC)
    token = msk_token(REGION, AwsCredentials(key, secret, session), signed_at.timestamp())
    found = parameters(token.value.reveal())
    assert found.pop("User-Agent") == "aioproducer"
    assert expected.pop("User-Agent").startswith("aws-msk-iam-sasl-signer-python")
    assert found == expected
    assert token.expires_at == ends_at / 1000


def test_nothing_shows_credentials_or_a_signed_url() -> None:
    """The secret key, the session token and the URL are secrets (S17)."""
    credentials = AwsCredentials(KEY, CANARY, CANARY)
    url = presigned("host", [("a", "b")], credentials, (REGION, "kafka-cluster"), 0.0, 900)
    assert url.reveal().startswith("https://host/?X-Amz-Algorithm=AWS4-HMAC-SHA256&")
    shown = repr(credentials) + str(credentials) + repr(url)
    assert [one for one in (CANARY, "Signature", "host") if one in shown] == []


async def test_credentials_that_are_given() -> None:
    """A function, or a coroutine function, is called for each token, which ends no later than its credentials."""
    ends = [None, time.time() + 100, time.time() + 5000]

    def give() -> AwsCredentials:
        return AwsCredentials(KEY, CANARY, "session", ends.pop(0))

    async def give_later() -> AwsCredentials:
        return give()

    for credentials, most in ((give, 900), (give_later, 100), (give, 900)):
        token = await msk_iam(REGION, credentials)()
        left = int(parameters(token.value.reveal())["X-Amz-Expires"])
        assert most - 2 <= left <= most
        assert token.expires_at is not None
        assert token.expires_at - time.time() <= left
    assert ends == []


def source(provider: Callable[[], Any]) -> TokenSource:
    """The tokens of a producer with this provider."""

    async def fetch() -> Any:
        return await UserFunctions().call(provider)

    return TokenSource(fetch, "sasl_token_provider", {}, log_of("tests"), random.Random(1), clock=time.time)


@pytest.mark.parametrize(
    ("give", "why"),
    [
        (lambda: AwsCredentials(KEY, CANARY, None, 1.0), "got credentials of AWS that have expired"),
        (lambda: (KEY, CANARY), "got no AwsCredentials: the callable of msk_iam() gave tuple"),
        (lambda: {"a": 1}[CANARY], "raised KeyError"),
        (lambda: AwsCredentials(KEY, f"{CANARY}\udc99"), "got credentials of AWS that are not UTF-8 text"),
    ],
)
async def test_credentials_that_cannot_be_used(give: Callable[[], Any], why: str) -> None:
    """The error has the reason, and no secret (S17)."""
    with pytest.raises(AuthenticationError) as caught:
        await source(msk_iam(REGION, give)).credentials()
    assert f"sasl_token_provider {why}" in str(caught.value)
    assert caught.value.reason == "token"
    assert CANARY not in report(caught.value)


@pytest.mark.parametrize("region", ["", "eu-west-1.evil.example/", "EU-WEST-1", "eu"])
def test_regions_that_cannot_be(region: str) -> None:
    """The region is a part of a host name that gets a signature."""
    with pytest.raises(ConfigurationError, match="such as 'eu-west-1'"):
        msk_iam(region, lambda: AwsCredentials(KEY, CANARY))


# -- the chain of botocore


@pytest.fixture
def aws(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The file of credentials of AWS; nothing of this machine is used."""
    path = tmp_path / "credentials"
    for name, value in (
        ("AWS_SHARED_CREDENTIALS_FILE", str(path)),
        ("AWS_CONFIG_FILE", str(tmp_path / "config")),
        ("AWS_EC2_METADATA_DISABLED", "true"),
    ):
        monkeypatch.setenv(name, value)
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    return path


def of_file(path: Path, key: str, profile: str = "default") -> None:
    """Write credentials of a profile."""
    of_text(path, f"[{profile}]\naws_access_key_id={key}\naws_secret_access_key={CANARY}\n")


def of_text(path: Path, text: str) -> None:
    """Replace the file."""
    path.write_text(text)


def key_of(token: Token) -> str:
    """The access key that has signed a token."""
    return parameters(token.value.reveal())["X-Amz-Credential"].partition("/")[0]


async def test_the_chain_of_botocore(aws: Path, caplog: pytest.LogCaptureFixture) -> None:
    """It finds credentials anew for each token, so a file may change; without any the error says so."""
    caplog.set_level(logging.DEBUG)
    provide = msk_iam(REGION)
    for key in ("AKIAFIRST", "AKIASECOND"):
        of_file(aws, key)
        assert key_of(await provide()) == key
    of_text(aws, "")
    with pytest.raises(AuthenticationError, match="found no credentials of AWS: botocore knows none"):
        await source(provide).credentials()
    of_text(aws, f"[{CANARY}")
    with pytest.raises(AuthenticationError, match="botocore raised ConfigParseError") as caught:
        await source(provide).credentials()
    assert CANARY not in report(caught.value)
    assert CANARY not in caplog.text


def jaas(options: str = "", **settings: Any) -> ProducerConfig:
    """The settings of a Java client of MSK."""
    properties = {
        "bootstrap.servers": SERVER,
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "AWS_MSK_IAM",
        "sasl.jaas.config": f"{MODULE} {options};",
        "sasl.client.callback.handler.class": "software.amazon.msk.auth.iam.IAMClientCallbackHandler",
    }
    return ProducerConfig.from_properties(properties, **settings)


async def tokens_of(config: ProducerConfig) -> Token:
    """The token of a producer with these settings."""
    provider = iam_provider(config)
    assert provider is not None
    return await provider()


async def test_the_login_module_of_java(aws: Path) -> None:
    """AWS_MSK_IAM becomes OAUTHBEARER, also in a changed copy; the region is in the host names, the profile an option."""
    of_file(aws, KEY, "orders")
    for config in (jaas('awsProfileName="orders"'), jaas("awsProfileName=orders").evolve(linger_ms=1)):
        assert config.sasl_mechanism == "OAUTHBEARER"
        assert key_of(await tokens_of(config)) == KEY
    assert security_of(jaas(), asyncio.get_running_loop(), random.Random(1)).authenticate is not None


@pytest.mark.parametrize(
    ("given", "line"),
    [
        (
            {"sasl.jaas.config": None},
            "sasl_mechanism='AWS_MSK_IAM': requires sasl_jaas_config with IAMLoginModule",
        ),
        ({"bootstrap.servers": "kafka.example:9098"}, "no region of AWS is in the host names"),
        ({"bootstrap.servers": f"b-1.kafka.{REGION}.amazonaws.com.evil.example:1"}, "no region of AWS"),
        ({"sasl.jaas.config": f"{MODULE} awsProfileName=a awsRoleArn=b;"}, "exclude each other"),
        ({"sasl.jaas.config": f"{MODULE} awsRoleArn=b awsRoleAccessKeyId=c;"}, "belong together"),
        ({"sasl.mechanism": "PLAIN"}, "IAMLoginModule requires sasl_mechanism='AWS_MSK_IAM'"),
        ({"sasl.token.provider": lambda: ""}, "IAMLoginModule takes the place of it"),
    ],
)
def test_settings_of_msk_that_do_not_fit(given: dict[str, Any], line: str) -> None:
    """Each line has its fix."""
    properties = {
        "bootstrap.servers": SERVER,
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "AWS_MSK_IAM",
        "sasl.jaas.config": f"{MODULE};",
    }
    chosen = {name: value for name, value in (properties | given).items() if value is not None}
    with pytest.raises(ConfigurationError) as caught:
        ProducerConfig.from_properties(chosen)
    assert line in str(caught.value)


@pytest.mark.parametrize(
    "server",
    [
        "boot-a1b2.c1.kafka-serverless.us-gov-west-1.amazonaws.com:9098",
        "b-2.x.c3.kafka.cn-north-1.amazonaws.com.cn:9098",
    ],
)
def test_host_names_of_other_clusters(server: str) -> None:
    """Serverless clusters, and those in China."""
    assert jaas().evolve(bootstrap_servers=server).sasl_mechanism == "OAUTHBEARER"


def test_without_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    """The error names it, and shows no option; credentials that are given do not need it."""
    config = jaas(f'awsRoleArn=r awsRoleAccessKeyId={KEY} awsRoleSecretAccessKey="{CANARY}"')
    monkeypatch.setitem(sys.modules, "botocore", None)
    makes: tuple[Callable[[], object], ...] = (lambda: msk_iam(REGION), lambda: iam_provider(config))
    for make in makes:
        with pytest.raises(ConfigurationError, match=r"pip install 'aioproducer\[aws\]'") as caught:
            make()
        assert CANARY not in report(caught.value)
    msk_iam(REGION, lambda: AwsCredentials(KEY, CANARY))


# -- roles

ENDS_IN = 300
ANSWER = """<AssumeRoleResponse xmlns="https://sts.amazonaws.com/doc/2011-06-15/"><AssumeRoleResult><Credentials>
<AccessKeyId>ASIAROLE</AccessKeyId><SecretAccessKey>{secret}</SecretAccessKey><SessionToken>session</SessionToken>
<Expiration>{end}</Expiration></Credentials></AssumeRoleResult></AssumeRoleResponse>"""


@pytest.fixture
def sts(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[dict[str, str]]]:
    """The requests to a service that gives credentials of a role for five minutes."""
    asked: list[dict[str, str]] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"])).decode()
            form = {name: values[0] for name, values in parse_qs(body).items()}
            asked.append(form | {"signed": self.headers["Authorization"]})
            end = datetime.fromtimestamp(time.time() + ENDS_IN, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
            good = form["RoleArn"] != "refused-role-arn-0123"
            self.send_response(200 if good else 403)
            self.end_headers()
            self.wfile.write(ANSWER.format(secret=CANARY, end=end).encode() if good else CANARY.encode())

        def log_message(self, *_: object) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        monkeypatch.setenv("AWS_ENDPOINT_URL_STS", f"http://127.0.0.1:{server.server_port}")
        yield asked
        server.shutdown()
        thread.join()


async def test_a_role(aws: Path, sts: list[dict[str, str]]) -> None:
    """Credentials of the chain, or those of the options, assume it; the token ends with the credentials of the role."""
    of_file(aws, "AKIACHAIN")
    role = "arn:aws:iam::123456789012:role/orders"
    own = f'awsRoleAccessKeyId=AKIABASE awsRoleSecretAccessKey="{CANARY}" awsRoleSessionToken=t'
    named = "awsRoleSessionName=me awsRoleExternalId=it-is-me awsStsRegion=us-east-1"
    for options in (f'awsRoleArn="{role}"', f'awsRoleArn="{role}" {own} {named}'):
        token = await tokens_of(jaas(options))
        assert key_of(token) == "ASIAROLE"
        assert parameters(token.value.reveal())["X-Amz-Security-Token"] == "session"
        assert token.expires_at is not None
        assert token.expires_at <= time.time() + ENDS_IN
    first, second = sts
    assert (first["RoleSessionName"], second["RoleSessionName"]) == ("aioproducer", "me")
    assert (first.get("ExternalId"), second["ExternalId"]) == (None, "it-is-me")
    assert f"AKIACHAIN/{datetime.now(UTC):%Y%m%d}/{REGION}/sts" in first["signed"]
    assert "AKIABASE" in second["signed"]
    assert "/us-east-1/sts" in second["signed"]


async def test_a_role_that_is_refused(aws: Path, sts: list[dict[str, str]]) -> None:
    """The text of the service is not shown."""
    of_file(aws, KEY)
    config = jaas("awsRoleArn=refused-role-arn-0123")
    provider = iam_provider(config)
    assert provider is not None
    with pytest.raises(AuthenticationError, match="botocore raised ") as caught:
        await source(provider).credentials()
    assert CANARY not in report(caught.value)
    assert len(sts) == 1
