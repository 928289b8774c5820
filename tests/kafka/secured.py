"""A real Kafka with listeners for TLS and SASL beside the plaintext one, which the administrator uses."""

from __future__ import annotations

from pathlib import Path
from typing import Final, Self

import attrs
from confluent_kafka.admin._config import AlterConfigOpType, ConfigEntry, ConfigResource
from confluent_kafka.admin._resource import ResourceType
from confluent_kafka.admin._scram import ScramCredentialInfo, ScramMechanism, UserScramCredentialUpsertion

from tests.certificates import Authority
from tests.kafka.identity_provider import AUDIENCE, ISSUER, IdentityProvider
from tests.kafka.realm import REALM, Realm
from tools.kafka_cluster import KafkaCluster
from tools.kafka_node import QUICK_START, NodePorts, hold_ports

USER: Final = "alice"
OTHER_USER: Final = "bob"
# Characters that SASLprep changes and Kafka does not.
SCRAM_PASSWORD: Final = "\u2460\ufb01x,=canary-7"
PLAIN_PASSWORD: Final = "alice,=canary-7"
SESSION_SECONDS: Final = 5.0

_SECURITY: Final = "org.apache.kafka.common.security"
_PLAIN: Final = f'{_SECURITY}.plain.PlainLoginModule required user_{USER}="{PLAIN_PASSWORD}" user_{OTHER_USER}="{PLAIN_PASSWORD}";'
_SCRAM: Final = f"{_SECURITY}.scram.ScramLoginModule required;"
_TOKEN: Final = (
    f'{_SECURITY}.oauthbearer.OAuthBearerLoginModule required unsecuredLoginStringClaim_sub="unused";'
)


@attrs.define
class SecuredKafka(KafkaCluster):
    """One node. SSL requires client certificates; sessions of SASL_SSL end after five seconds.

    Tokens of OIDC are those of the identity provider, and sessions end with them.
    """

    authority: Authority = attrs.field(kw_only=True)
    provider: IdentityProvider = attrs.field(init=False)
    ports: NodePorts = attrs.field(factory=lambda: hold_ports(1)[0], init=False)
    other_ports: NodePorts = attrs.field(factory=lambda: hold_ports(1)[0], init=False)
    realm: Realm | None = None
    kerberos_ports: NodePorts = attrs.field(factory=lambda: hold_ports(1)[0], init=False)

    @classmethod
    def of(cls, folder: Path) -> Self:
        """A node with an authority in this folder."""
        return cls(authority=Authority.make(folder), java_options=QUICK_START)

    @property
    def ssl_port(self) -> int:
        """The port of the listener that requires certificates."""
        return self.ports.broker

    @property
    def sasl_port(self) -> int:
        """The port of the listener that requires SASL over TLS."""
        return self.ports.controller

    @property
    def sasl_plaintext_port(self) -> int:
        """The port of the listener that requires SASL without TLS."""
        return self.other_ports.broker

    @property
    def oidc_port(self) -> int:
        """The port of the listener that verifies tokens of the identity provider."""
        return self.other_ports.controller

    @property
    def kerberos_port(self) -> int:
        """The port of the listener that requires GSSAPI over TLS."""
        return self.kerberos_ports.broker

    @classmethod
    def with_realm(cls, folder: Path) -> Self:
        """A node that has a realm of Kerberos as well, and a listener for it."""
        kafka = cls.of(folder)
        kafka.realm = Realm(folder / "realm", kafka.kerberos_ports.controller)
        kafka.java_options += (f"-Djava.security.krb5.conf={kafka.realm.config}",)
        return kafka

    def __attrs_post_init__(self) -> None:
        self.provider = IdentityProvider(self.authority)

    def start(self) -> None:
        """Start, then create the user of SCRAM."""
        # A broker fetches the keys before it listens.
        self.provider.start()
        self.java_options += (
            f"-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls={self.provider.url('jwks')}",
        )
        if self.realm is not None:
            self.realm.make()
            self.realm.start()
        super().start()
        changes = [
            UserScramCredentialUpsertion(USER, ScramCredentialInfo(mechanism, 4096), SCRAM_PASSWORD.encode())
            for mechanism in (ScramMechanism.SCRAM_SHA_256, ScramMechanism.SCRAM_SHA_512)
        ]
        for change in changes:  # one mechanism each
            self.admin.alter_user_scram_credentials([change])[USER].result(30)

    def use_store(self, store: Path) -> None:
        """The listener of SASL over TLS takes its key and certificates from this file, for new connections."""
        # The same value again: a broker looks whether the file has changed.
        entry = ConfigEntry(
            "listener.name.sasl_ssl.ssl.keystore.location",
            str(store),
            incremental_operation=AlterConfigOpType.SET,
        )
        resource = ConfigResource(ResourceType.BROKER, "1", incremental_configs=[entry])
        self.admin.incremental_alter_configs([resource])[resource].result(30)

    @property
    def broker_store(self) -> Path:
        """The file of the listeners for TLS."""
        return self.authority.folder / "broker.store.pem"

    def close(self) -> None:
        """Release all ports."""
        super().close()
        self.provider.stop()
        if self.realm is not None:
            self.realm.stop()
        for ports in (self.ports, self.other_ports, self.kerberos_ports):
            ports.release()

    def _write_properties(self) -> None:
        self.settings = self._secured(self.nodes[0].ports) | self.settings
        super()._write_properties()

    def _secured(self, own: NodePorts) -> dict[str, str]:
        broker = self.authority.issue("broker")
        self.broker_store.write_text(broker.pem)
        listeners = {
            "PLAINTEXT": ("PLAINTEXT", own.broker),
            "SSL": ("SSL", self.ssl_port),
            "SASL_SSL": ("SASL_SSL", self.sasl_port),
            "OIDC": ("SASL_SSL", self.oidc_port),
            "SASL_PLAINTEXT": ("SASL_PLAINTEXT", self.sasl_plaintext_port),
        }
        kerberos: dict[str, str] = {}
        if self.realm is not None:
            listeners["GSSAPI"] = ("SASL_SSL", self.kerberos_port)
            kerberos = _kerberos(self.realm)
        bound = [f"{name}://127.0.0.1:{port}" for name, (_, port) in listeners.items()]
        advertised = ",".join(bound).replace("127.0.0.1", "localhost")
        protocols = [f"{name}:{protocol}" for name, (protocol, _) in listeners.items()]
        return {
            **kerberos,
            **_password_listener("sasl_ssl", SESSION_SECONDS),
            **_password_listener("sasl_plaintext"),
            **self._oidc(),
            "listeners": ",".join((*bound, f"CONTROLLER://127.0.0.1:{own.controller}")),
            # The administrator's clients find a node by this text.
            "advertised.listeners": advertised.replace("localhost", "127.0.0.1", 1),
            "listener.security.protocol.map": ",".join((*protocols, "CONTROLLER:PLAINTEXT")),
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": str(self.broker_store),
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(self.authority.own.certificate),
            "ssl.allow.dn.changes": "true",
            "ssl.allow.san.changes": "true",
            "listener.name.ssl.ssl.client.auth": "required",
            "delegation.token.secret.key": "canary-7",
        }

    def _oidc(self) -> dict[str, str]:
        """The properties of the listener that verifies signatures with the keys of the identity provider."""
        trusted = f'ssl.truststore.type="PEM" ssl.truststore.location="{self.authority.own.certificate}"'
        listener = "listener.name.oidc"
        mechanism = f"{listener}.oauthbearer.sasl"
        return {
            f"{listener}.sasl.enabled.mechanisms": "OAUTHBEARER",
            f"{mechanism}.jaas.config": _TOKEN.replace(";", f" {trusted};"),
            f"{mechanism}.server.callback.handler.class": f"{_SECURITY}.oauthbearer.OAuthBearerValidatorCallbackHandler",
            f"{mechanism}.oauthbearer.jwks.endpoint.url": self.provider.url("jwks"),
            f"{mechanism}.oauthbearer.expected.audience": AUDIENCE,
            f"{mechanism}.oauthbearer.expected.issuer": ISSUER,
        }


def _password_listener(name: str, session_seconds: float = 0.0) -> dict[str, str]:
    """The properties of a listener with all mechanisms but GSSAPI; 0: sessions have no end, except those of tokens."""
    listener = f"listener.name.{name}"
    return {
        f"{listener}.connections.max.reauth.ms": str(int(session_seconds * 1000)),
        f"{listener}.sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512,OAUTHBEARER",
        f"{listener}.plain.sasl.jaas.config": _PLAIN,
        f"{listener}.scram-sha-256.sasl.jaas.config": _SCRAM,
        f"{listener}.scram-sha-512.sasl.jaas.config": _SCRAM,
        f"{listener}.oauthbearer.sasl.jaas.config": _TOKEN,
    }


def _kerberos(realm: Realm) -> dict[str, str]:
    """The properties of the listener of Kerberos; makes the principal of the broker."""
    keytab, listener = realm.principal("kafka/localhost"), "listener.name.gssapi"
    module = "com.sun.security.auth.module.Krb5LoginModule required useKeyTab=true storeKey=true"
    return {
        f"{listener}.connections.max.reauth.ms": str(int(SESSION_SECONDS * 1000)),
        f"{listener}.sasl.enabled.mechanisms": "GSSAPI",
        f"{listener}.sasl.kerberos.service.name": "kafka",
        f"{listener}.gssapi.sasl.jaas.config": f'{module} keyTab="{keytab}" principal="kafka/localhost@{REALM}";',
    }
