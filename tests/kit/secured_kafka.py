"""A broker that lets nobody in without a password, a token or a certificate, and asks its
authorizer about everything: the embedded broker's JVM with other properties."""

from __future__ import annotations

import base64
import json
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import trustme
from confluent_kafka import KafkaException
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)
from firnline_adapters.kafka.connection import KafkaConnection, client_config
from firnline_adapters.kafka_admin.acls import SERVICES, Acl, all_acls
from firnline_local.processes.ports import LOOPBACK, free_port, is_open
from firnline_local.processes.process import run_process
from firnline_local.servers import kafka
from firnline_local.topics.topics import topics_with

ADMIN = "admin"
PREFIX = "firnline-"
PRINCIPALS = tuple(PREFIX + service for service in SERVICES)
PASSWORDS = {name: f"{name}-cAnAry-7Qx5" for name in (ADMIN, *PRINCIPALS)}
PROPERTIES = """\
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@{host}:{controller}
listeners=SASL://{host}:{sasl},SASLSSL://{host}:{sasl_ssl},MTLS://{host}:{mtls},\
CONTROLLER://{host}:{controller}
advertised.listeners=SASL://localhost:{sasl},SASLSSL://localhost:{sasl_ssl},MTLS://localhost:{mtls}
controller.listener.names=CONTROLLER
listener.security.protocol.map=SASL:SASL_PLAINTEXT,SASLSSL:SASL_SSL,MTLS:SSL,CONTROLLER:PLAINTEXT
inter.broker.listener.name=SASL
sasl.mechanism.inter.broker.protocol=PLAIN
sasl.enabled.mechanisms=PLAIN,SCRAM-SHA-512,OAUTHBEARER
{jaas}
ssl.keystore.type=PEM
ssl.keystore.location={folder}/server.pem
ssl.truststore.type=PEM
ssl.truststore.location={folder}/ca.pem
listener.name.mtls.ssl.client.auth=required
listener.name.mtls.ssl.principal.mapping.rules=RULE:^.*CN=([^,]+).*$/$1/,DEFAULT
authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer
super.users=User:admin;User:ANONYMOUS
log.dirs={folder}/data
auto.create.topics.enable=false
group.initial.rebalance.delay.ms=0
offsets.topic.replication.factor=1
offsets.topic.num.partitions=4
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
transaction.state.log.num.partitions=4
log.cleaner.dedupe.buffer.size=4194304
"""
_MODULES = "org.apache.kafka.common.security"


@dataclass(frozen=True)
class SecuredKafka:
    """Where it listens, and what its clients need."""

    folder: Path
    ports: Mapping[str, int]
    ca: trustme.CA

    def _servers(self, listener: str) -> str:
        return f"localhost:{self.ports[listener]}"

    @property
    def ca_file(self) -> Path:
        return self.folder / "ca.pem"

    def plain(self, user: str, password: str | None = None) -> KafkaConnection:
        """SASL PLAIN, without TLS."""
        return KafkaConnection(
            self._servers("sasl"), _password("SASL_PLAINTEXT", "PLAIN", user, password)
        )

    def plain_tls(self, user: str) -> KafkaConnection:
        """SASL PLAIN over TLS."""
        return self._tls("PLAIN", user)

    def scram(self, user: str) -> KafkaConnection:
        """SCRAM-SHA-512 over TLS."""
        return self._tls("SCRAM-SHA-512", user)

    def _tls(self, mechanism: str, user: str) -> KafkaConnection:
        properties = _password("SASL_SSL", mechanism, user, None)
        return KafkaConnection(
            self._servers("sasl_ssl"), {**properties, "ssl.ca.location": str(self.ca_file)}
        )

    def certificate(self, user: str) -> KafkaConnection:
        """A certificate of its own whose common name is the principal."""
        cert = self.ca.issue_cert(f"{user}.local", common_name=user)
        chain, key = self.folder / f"{user}.pem", self.folder / f"{user}.key"
        chain.write_bytes(b"".join(one.bytes() for one in cert.cert_chain_pems))
        key.write_bytes(cert.private_key_pem.bytes())
        return KafkaConnection(
            self._servers("mtls"),
            {
                "security.protocol": "SSL",
                "ssl.ca.location": str(self.ca_file),
                "ssl.certificate.location": str(chain),
                "ssl.key.location": str(key),
            },
        )

    def unsecured_token(self, user: str) -> KafkaConnection:
        """OAUTHBEARER with a token that librdkafka makes itself."""
        return KafkaConnection(
            self._servers("sasl_ssl"),
            {
                "security.protocol": "SASL_SSL",
                "sasl.mechanism": "OAUTHBEARER",
                "enable.sasl.oauthbearer.unsecure.jwt": "true",
                "sasl.oauthbearer.config": f"principal={user} lifeSeconds=60",
                "ssl.ca.location": str(self.ca_file),
            },
        )

    def token(self, user: str, end_point: str) -> KafkaConnection:
        """OAUTHBEARER with a token of an end point, by client credentials."""
        return KafkaConnection(
            self._servers("sasl_ssl"),
            {
                "security.protocol": "SASL_SSL",
                "sasl.mechanism": "OAUTHBEARER",
                "sasl.oauthbearer.method": "oidc",
                "sasl.oauthbearer.token.endpoint.url": end_point,
                "sasl.oauthbearer.client.id": user,
                "sasl.oauthbearer.client.secret": PASSWORDS[user],
                "ssl.ca.location": str(self.ca_file),
            },
        )

    def admin(self) -> AdminClient:
        """Of a super user."""
        return AdminClient(client_config(self.plain(ADMIN)))

    def allow(self, rights: list[Acl]) -> None:
        """Give the services' principals these rights."""
        bindings = [
            AclBinding(
                _KINDS[one.kind],
                one.name,
                ResourcePatternType[one.pattern.upper()],
                f"User:{PREFIX}{one.service}",
                "*",
                AclOperation[_constant(operation)],
                AclPermissionType.ALLOW,
            )
            for one in rights
            for operation in one.operations
        ]
        admin = self.admin()  # its futures do not outlive it
        for done in admin.create_acls(bindings, request_timeout=30).values():
            done.result()

    def allow_all_services(self) -> None:
        """What `firnline kafka-acls` prints."""
        self.allow(all_acls(topics_with(())))


_KINDS = {
    "topic": ResourceType.TOPIC,
    "group": ResourceType.GROUP,
    "transactional-id": ResourceType.TRANSACTIONAL_ID,
}


def _constant(operation: str) -> str:
    return "".join(f"_{one}" if one.isupper() else one for one in operation).lstrip("_").upper()


def _password(protocol: str, mechanism: str, user: str, password: str | None) -> dict[str, str]:
    return {
        "security.protocol": protocol,
        "sasl.mechanism": mechanism,
        "sasl.username": user,
        "sasl.password": PASSWORDS[user] if password is None else password,
    }


@contextmanager
def secured_kafka(folder: Path) -> Iterator[SecuredKafka]:
    """A broker with our principals' passwords, and no rights but those of `admin`."""
    folder.mkdir(parents=True)
    ports: dict[str, int] = {}
    for name in ("sasl", "sasl_ssl", "mtls", "controller"):
        ports[name] = free_port(frozenset(ports.values()))
    made = SecuredKafka(folder, ports, trustme.CA())
    _certificates(made)
    text = PROPERTIES.format(host=LOOPBACK, folder=folder, jaas=_jaas(), **ports)
    command = kafka.command(folder, ports["sasl"], ports["controller"], text)

    def answers() -> bool:
        if not is_open(ports["sasl"]):
            return False
        try:
            made.admin().list_topics(timeout=1.0)
        except KafkaException:
            return False
        return True

    with run_process(replace(command, ready=answers), folder / "kafka.log"):
        users = [
            UserScramCredentialUpsertion(
                user, ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, 4096), password.encode()
            )
            for user, password in PASSWORDS.items()
        ]
        admin = made.admin()
        for done in admin.alter_user_scram_credentials(users).values():
            done.result()
        yield made


def _certificates(made: SecuredKafka) -> None:
    made.ca.cert_pem.write_to_path(made.ca_file)
    cert = made.ca.issue_cert("localhost", LOOPBACK)
    key = load_pem_private_key(cert.private_key_pem.bytes(), None)
    chain = b"".join(one.bytes() for one in cert.cert_chain_pems)
    own = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    (made.folder / "server.pem").write_bytes(own + chain)


def _jaas() -> str:
    users = " ".join(f'user_{name}="{password}"' for name, password in PASSWORDS.items())
    modules = {
        "plain": f'plain.PlainLoginModule required username="{ADMIN}" '
        f'password="{PASSWORDS[ADMIN]}" {users};',
        "scram-sha-512": "scram.ScramLoginModule required;",
        "oauthbearer": "oauthbearer.OAuthBearerLoginModule required "
        'unsecuredLoginStringClaim_sub="broker";',
    }
    return "\n".join(
        f"listener.name.{listener}.{mechanism}.sasl.jaas.config={_MODULES}.{module}"
        for listener in ("sasl", "saslssl")
        for mechanism, module in modules.items()
    )


@contextmanager
def token_end_point(life_s: int = 60) -> Iterator[str]:
    """Gives whoever knows its password a token that nobody has signed."""

    class Answers(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            scheme, _, pair = self.headers.get("Authorization", "").partition(" ")
            user, _, password = base64.b64decode(pair).decode().partition(":")
            known = scheme == "Basic" and PASSWORDS.get(user) == password
            now = int(time.time())
            claims = {"sub": user, "iat": now, "exp": now + life_s}
            token = f"{_coded({'alg': 'none'})}.{_coded(claims)}."
            body = {"access_token": token, "token_type": "Bearer", "expires_in": life_s}
            content = json.dumps(body if known else {"error": "invalid_client"}).encode()
            self.send_response(200 if known else 401)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, format: str, *args: Any) -> None:
            return

    server = HTTPServer((LOOPBACK, 0), Answers)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://{LOOPBACK}:{server.server_port}/token"
    finally:
        server.shutdown()


def _coded(value: dict[str, Any]) -> str:
    return base64.urlsafe_b64encode(json.dumps(value).encode()).decode().rstrip("=")
