"""The Kafka of the benchmarks with one node: listeners for SASL over TLS beside the plaintext one."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from typing import Final, Literal

import attrs
from confluent_kafka.admin._scram import ScramCredentialInfo, ScramMechanism, UserScramCredentialUpsertion

from aioproducer.testing import certificates
from benchmarks.credentials import MECHANISM, PASSWORD, USER
from tools.kafka_cluster import KafkaCluster
from tools.kafka_node import KafkaNode, NodePorts, hold_ports

SESSION_SECONDS: Final = 5
# Kafka's own number for a user that `kafka-configs.sh` creates.
_ITERATIONS: Final = 4096
_LIMIT: Final = 30.0
_MODULE: Final = "org.apache.kafka.common.security.scram.ScramLoginModule required;"

Listener = Literal["plaintext", "SASL_SSL", "SESSIONS"]
"""`SASL_SSL` has sessions without an end; those of `SESSIONS` end after five seconds."""


@attrs.define
class SecuredCluster(KafkaCluster):
    """One node; every listener leads to the same topics."""

    _ports: NodePorts = attrs.field(factory=lambda: hold_ports(1)[0], init=False)
    _stores: Path = attrs.field(
        factory=lambda: Path(tempfile.mkdtemp(prefix="aioproducer-bench-")), init=False
    )

    @property
    def authority(self) -> str:
        """The path of the certificate that clients trust."""
        return str(self._stores / "authority.pem")

    def servers(self, listener: Listener) -> str:
        """The address of a listener."""
        if listener == "plaintext":
            return self.bootstrap_servers
        return f"localhost:{self._ports.broker if listener == 'SASL_SSL' else self._ports.controller}"

    def start(self) -> None:
        """Start, then create the user."""
        super().start()
        credential = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, _ITERATIONS)
        change = UserScramCredentialUpsertion(USER, credential, PASSWORD.encode())
        self.admin.alter_user_scram_credentials([change])[USER].result(_LIMIT)

    def close(self) -> None:
        """Delete the certificates as well."""
        super().close()
        self._ports.release()
        shutil.rmtree(self._stores, ignore_errors=True)

    def _own_settings(self, node: KafkaNode) -> dict[str, str]:
        self._write_stores()
        return self._listeners(node.ports)

    def _write_stores(self) -> None:
        authority = certificates()
        Path(self.authority).write_text(authority.authority, encoding="ascii")
        (self._stores / "broker.pem").write_text(authority.issue().pem, encoding="ascii")

    def _listeners(self, own: NodePorts) -> dict[str, str]:
        secured = {"SASL_SSL": self._ports.broker, "SESSIONS": self._ports.controller}
        advertised = [f"PLAINTEXT://127.0.0.1:{own.broker}"]
        advertised += [f"{name}://localhost:{port}" for name, port in secured.items()]
        bound = [address.replace("localhost", "127.0.0.1") for address in advertised]
        protocols = "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,SASL_SSL:SASL_SSL,SESSIONS:SASL_SSL"
        settings = {
            "listeners": ",".join([*bound, f"CONTROLLER://127.0.0.1:{own.controller}"]),
            "advertised.listeners": ",".join(advertised),
            "listener.security.protocol.map": protocols,
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": str(self._stores / "broker.pem"),
            "listener.name.sessions.connections.max.reauth.ms": str(SESSION_SECONDS * 1000),
        }
        for name in secured:
            prefix = f"listener.name.{name.lower()}"
            settings[f"{prefix}.sasl.enabled.mechanisms"] = MECHANISM
            settings[f"{prefix}.{MECHANISM.lower()}.sasl.jaas.config"] = _MODULE
        return settings
