"""Three nodes of a real Kafka with a listener for SASL over TLS, whose secrets and certificates change on command.

Clients need a certificate and a password (SCRAM-SHA-512) or a token. Sessions end after five seconds. Clients read the
files of a folder: the password, their certificate with its key, and the certificates that they trust. There are two
authorities; brokers trust both, so that either may have issued a client's certificate.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

import attrs
from confluent_kafka.admin._config import AlterConfigOpType, ConfigEntry, ConfigResource
from confluent_kafka.admin._resource import ResourceType
from confluent_kafka.admin._scram import (
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialDeletion,
    UserScramCredentialUpsertion,
)

from tests.certificates import Authority
from tools.kafka_cluster import KafkaCluster
from tools.kafka_node import KafkaNode, NodePorts, hold_ports

USER: Final = "soak"
SESSION_SECONDS: Final = 5
PASSWORD_FILE: Final = "password"  # its name
CLIENT_FILE: Final = "client.pem"
TRUSTED_FILE: Final = "trusted.pem"

_NAMES: Final = (1, 2)
_LISTENER: Final = "listener.name.secured"
_SECURITY: Final = "org.apache.kafka.common.security"
_LIMIT: Final = 30.0


@attrs.define
class SecuredNodes(KafkaCluster):
    """Three nodes, and the folder for their clients."""

    folder: Path = attrs.field(kw_only=True)
    _secured_ports: list[NodePorts] = attrs.field(factory=lambda: hold_ports(3), init=False)
    _authorities: list[Authority] = attrs.field(init=False)
    _changes: int = attrs.field(default=0, init=False)

    def __attrs_post_init__(self) -> None:
        self._authorities = [Authority.make(self.folder / f"authority-{name}") for name in _NAMES]
        both = "".join(one.own.certificate.read_text() for one in self._authorities)
        (self.folder / "brokers-trust.pem").write_text(both)

    @property
    def secured_servers(self) -> str:
        """The addresses of the listener that asks for certificates and for SASL."""
        return ",".join(f"localhost:{ports.broker}" for ports in self._secured_ports)

    def start(self) -> None:
        """Start with the first password and the first certificates."""
        super().start()
        self.change_password(0.0)
        self.change_trusted(0)
        self.change_client_certificate(0)

    def close(self) -> None:
        """Release all ports."""
        super().close()
        for ports in self._secured_ports:
            ports.release()

    # -- changes

    def change_password(self, delay: float) -> None:
        """The cluster gets another password, and `delay` seconds later the file of the clients does."""
        self._changes += 1
        password = f"password-{self._changes}"
        credential = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, 4096)
        self._alter_user(UserScramCredentialUpsertion(USER, credential, password.encode()))
        time.sleep(delay)
        self._replace(PASSWORD_FILE, password)

    def delete_user(self, delay: float) -> None:
        """The user does not exist for a while."""
        self.drop_user()
        time.sleep(delay)
        self.change_password(0.0)

    def drop_user(self) -> None:
        """The user does not exist any more."""
        self._alter_user(UserScramCredentialDeletion(USER, ScramMechanism.SCRAM_SHA_512))

    def change_client_certificate(self, authority: int, delay: float = 0.0) -> None:
        """The clients get another certificate; its file is half written for `delay` seconds."""
        self._changes += 1
        text = self._authorities[authority].issue(f"client-{self._changes}", subject=f"/CN={USER}").pem
        if delay:
            self._replace(CLIENT_FILE, text[: len(text) // 2])
            time.sleep(delay)
        self._replace(CLIENT_FILE, text)

    def change_trusted(self, *authorities: int) -> None:
        """The clients trust these authorities."""
        texts = [self._authorities[one].own.certificate.read_text() for one in authorities]
        self._replace(TRUSTED_FILE, "".join(texts))

    def change_broker_certificates(self, authority: int) -> None:
        """Each broker that runs gets another certificate, from this authority."""
        for node in self.nodes:
            store = self._broker_store(node)
            self._write_broker_store(store, authority)
            if node.running and not node.paused:
                # The same value again: a broker looks whether the file has changed.
                entry = ConfigEntry(
                    f"{_LISTENER}.ssl.keystore.location",
                    str(store),
                    incremental_operation=AlterConfigOpType.SET,
                )
                resource = ConfigResource(ResourceType.BROKER, str(node.node_id), incremental_configs=[entry])
                self.admin.incremental_alter_configs([resource])[resource].result(_LIMIT)

    def _alter_user(self, change: UserScramCredentialUpsertion | UserScramCredentialDeletion) -> None:
        self.admin.alter_user_scram_credentials([change])[USER].result(_LIMIT)

    def _replace(self, name: str, text: str) -> None:
        # As Kubernetes does: a link to another file.
        self._changes += 1
        target = self.folder / f"{name}.{self._changes}"
        target.write_text(text)
        link = self.folder / f"{name}.link"
        link.symlink_to(target.name)
        link.replace(self.folder / name)

    # -- nodes

    def _own_settings(self, node: KafkaNode) -> dict[str, str]:
        store = self._broker_store(node)
        self._write_broker_store(store, 0)
        port = self._secured_ports[node.node_id - 1].broker
        own = node.ports
        return {
            "listeners": f"PLAINTEXT://127.0.0.1:{own.broker},SECURED://127.0.0.1:{port},"
            f"CONTROLLER://127.0.0.1:{own.controller}",
            "advertised.listeners": f"PLAINTEXT://127.0.0.1:{own.broker},SECURED://localhost:{port}",
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,SECURED:SASL_SSL",
            f"{_LISTENER}.ssl.keystore.type": "PEM",
            f"{_LISTENER}.ssl.keystore.location": str(store),
            f"{_LISTENER}.ssl.truststore.type": "PEM",
            f"{_LISTENER}.ssl.truststore.location": str(self.folder / "brokers-trust.pem"),
            f"{_LISTENER}.ssl.client.auth": "required",
            f"{_LISTENER}.connections.max.reauth.ms": str(SESSION_SECONDS * 1000),
            f"{_LISTENER}.sasl.enabled.mechanisms": "SCRAM-SHA-512,OAUTHBEARER",
            f"{_LISTENER}.scram-sha-512.sasl.jaas.config": f"{_SECURITY}.scram.ScramLoginModule required;",
            f"{_LISTENER}.oauthbearer.sasl.jaas.config": (
                f'{_SECURITY}.oauthbearer.OAuthBearerLoginModule required unsecuredLoginStringClaim_sub="unused";'
            ),
        }

    def _broker_store(self, node: KafkaNode) -> Path:
        return self.folder / f"broker-{node.node_id}.pem"

    def _write_broker_store(self, store: Path, authority: int) -> None:
        self._changes += 1
        store.write_text(self._authorities[authority].issue(f"broker-{self._changes}").pem)


Change = Callable[[SecuredNodes, random.Random, float], None]


def password_changes(kafka: SecuredNodes, rng: random.Random, longest: float) -> None:
    """The file follows the cluster after a while."""
    kafka.change_password(rng.uniform(0.0, 0.4) * longest)


def user_is_deleted(kafka: SecuredNodes, rng: random.Random, longest: float) -> None:
    """Each authentication is refused until the user is there again."""
    kafka.delete_user(rng.uniform(0.1, 0.6) * longest)


def client_certificate_changes(kafka: SecuredNodes, rng: random.Random, longest: float) -> None:
    """A half-written file first."""
    kafka.change_client_certificate(rng.randrange(len(_NAMES)), rng.uniform(0.0, 0.4) * longest)


def authority_changes(kafka: SecuredNodes, rng: random.Random, longest: float) -> None:
    """Clients trust both, then brokers change to the new one, then clients trust only that."""
    new = rng.randrange(len(_NAMES))
    kafka.change_trusted(*range(len(_NAMES)))
    time.sleep(rng.uniform(0.0, 0.3) * longest)
    kafka.change_broker_certificates(new)
    time.sleep(rng.uniform(0.0, 0.3) * longest)
    kafka.change_trusted(new)


def everything_changes(kafka: SecuredNodes, rng: random.Random, longest: float) -> None:
    """Password, both certificates and authority in one go."""
    authority_changes(kafka, rng, longest / 3)
    client_certificate_changes(kafka, rng, longest / 3)
    password_changes(kafka, rng, longest / 3)


CHANGES: Final[tuple[Change, ...]] = (
    password_changes,
    user_is_deleted,
    client_certificate_changes,
    authority_changes,
    everything_changes,
)
"""These touch no connection: no record may end as UNKNOWN by them."""
