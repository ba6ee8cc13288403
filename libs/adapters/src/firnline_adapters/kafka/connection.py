"""Configure every client of Kafka: addresses and librdkafka properties, from one place.
`client_config` makes the configuration of each consumer, producer and admin client of the
project."""

from __future__ import annotations

import os
import re
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from firnline_domain.errors import Misconfigured

from firnline_adapters.config import redaction
from firnline_adapters.config.config_file import CONFIG, ConfigFile, read_config
from firnline_adapters.config.redaction import MASK
from firnline_adapters.config.references import Unresolved, resolve_reference
from firnline_adapters.config.settings import Setting

KAFKA: Final = Setting("FIRNLINE_KAFKA", "Kafka bootstrap servers: `host:port[,...]`.")
KAFKA_CONFIG: Final = Setting(
    "FIRNLINE_KAFKA_CONFIG",
    "Path of a file with librdkafka properties for every client, one `name=value` per line: "
    "`security.protocol`, `sasl.*`, `ssl.*` ... A value can be `${VARIABLE}` or `file:/path`.",
    None,
)
# A client for one question, or beside the service's others: what it cannot do, its errors say.
QUIET: Final[Mapping[str, Any]] = {"log_level": 0}
SERVERS: Final = "bootstrap.servers"
# Of clients that read without a group; nothing is ever committed in it. One prefix, so that one
# ACL is enough: librdkafka looks a group's coordinator up, whether or not it is used.
READER_GROUPS: Final = "firnline-reader-"
# What Firnline decides: deliveries, order and memory rest on these.
OWNED: Final = frozenset(
    {
        *("bootstrap.servers", "metadata.broker.list", "client.id", "group.id", "log_level"),
        *("group.instance.id", "group.protocol", "isolation.level", "acks"),
        *("request.required.acks",),
        *("enable.idempotence", "transactional.id", "transaction.timeout.ms", "linger.ms"),
        *("enable.auto.commit", "enable.auto.offset.store", "auto.offset.reset", "partitioner"),
        *("partition.assignment.strategy", "enable.partition.eof", "delivery.timeout.ms"),
        *("session.timeout.ms", "heartbeat.interval.ms", "max.poll.interval.ms"),
        *("message.max.bytes", "fetch.message.max.bytes", "compression.type", "compression.codec"),
        *("compression.level", "topic.metadata.refresh.interval.ms", "fetch.wait.max.ms"),
        *("fetch.queue.backoff.ms", "queued.min.messages", "queued.max.messages.kbytes"),
        *("queue.buffering.max.messages", "max.in.flight", "allow.auto.create.topics"),
    }
)
SECRET: Final = frozenset(
    {
        *("sasl.password", "ssl.key.password", "ssl.key.pem", "ssl.keystore.password"),
        *("sasl.oauthbearer.client.secret", "sasl.oauthbearer.config"),
        *("sasl.oauthbearer.assertion.private.key.passphrase",),
        *("sasl.oauthbearer.assertion.private.key.pem",),
    }
)
JAVA_ONLY = ("sasl.jaas", "ssl.truststore", "ssl.keystore.type", "sasl.login")


@dataclass(frozen=True)
class KafkaConnection:
    """Bootstrap servers and librdkafka properties. Secret values are not shown."""

    servers: str
    properties: Mapping[str, str] = field(default_factory=dict)

    def __str__(self) -> str:
        shown = {name: MASK if name in SECRET else one for name, one in self.properties.items()}
        return " ".join([self.servers, *(f"{name}={one}" for name, one in sorted(shown.items()))])

    def __repr__(self) -> str:
        return f"KafkaConnection({self})"


Kafka = KafkaConnection | str  # a text: bootstrap servers that ask for nothing


def connection_of(kafka: Kafka) -> KafkaConnection:
    """Return the connection of bootstrap servers; a connection is returned as it is."""
    return KafkaConnection(kafka) if isinstance(kafka, str) else kafka


def client_config(kafka: Kafka, own: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Return the librdkafka configuration of one client. `own`: properties that Firnline sets."""
    connection, own = connection_of(kafka), own or {}
    assert OWNED.issuperset(own), f"not declared as owned: {sorted(set(own) - OWNED)}"
    return {"bootstrap.servers": connection.servers, **connection.properties, **own}


def reader_group() -> str:
    """Return the group of a client that reads what it is assigned, and commits nothing."""
    return READER_GROUPS + uuid.uuid4().hex


def connection_here(servers: str, environment: Mapping[str, str] = os.environ) -> KafkaConnection:
    """Return the connection with the properties that the environment refers to. Raises
    Misconfigured."""
    file = read_config(environment.get(CONFIG.variable), environment)
    return with_file(servers, environment.get(KAFKA_CONFIG.variable), environment, file)


def with_file(
    servers: str,
    path: str | None,
    environment: Mapping[str, str] = os.environ,
    file: ConfigFile | None = None,
) -> KafkaConnection:
    """Return the connection with the properties of a librdkafka file at `path`, or of `[kafka]` in
    Firnline's own file; without either it has none. Raises Misconfigured, also if both set
    properties."""
    table = {} if file is None else dict(file.kafka)
    told = table.pop(SERVERS, servers)
    if told != servers:
        raise Misconfigured(
            f"{KAFKA.variable} and {SERVERS} of {_kafka_section(file)} differ: take one of them out"
        )
    if path and table:
        raise Misconfigured(
            f"{KAFKA_CONFIG.variable} and {_kafka_section(file)} both say how to reach Kafka: "
            "take one of them out"
        )
    if path:
        try:
            text = Path(path).read_text()
        except (OSError, UnicodeDecodeError) as error:
            raise Misconfigured(f"{KAFKA_CONFIG.variable}={path}: {error}") from None
        table, source = parse_properties(text, path), path
    else:
        source = _kafka_section(file)
    return KafkaConnection(servers, resolve_properties(table, source, environment) if table else {})


def _kafka_section(file: ConfigFile | None) -> str:
    return f"[kafka] of {file.path}" if file else ""


def parse_properties(text: str, source: str) -> dict[str, str]:
    """Return the pairs of a properties file: `name=value`, `#` begins a line that is a comment.
    Raises Misconfigured."""
    pairs: dict[str, str] = {}
    for number, line in enumerate(text.splitlines(), 1):
        name, sign, value = (part.strip() for part in line.partition("="))
        if not name or name.startswith("#"):
            continue
        if not sign or name in pairs:
            why = "is there twice" if sign else "has no value"  # never the line: it may be a secret
            raise Misconfigured(
                f"{source}, line {number}: {_shown_name(name)} {why}: write name=value"
            )
        pairs[name] = value
    return pairs


def resolve_properties(
    pairs: Mapping[str, str], source: str, environment: Mapping[str, str] = os.environ
) -> dict[str, str]:
    """Return properties with their references resolved. Secret ones are masked in all output of
    this process. Raises Misconfigured, naming each that Firnline sets itself or librdkafka does not
    have."""
    wrong: list[str] = []
    found: dict[str, str] = {}
    for name, value in pairs.items():
        if name in OWNED:
            wrong.append(f"{name}: {_replacement_hint(name)}")
            continue
        try:
            found[name] = resolve_reference(value, environment)
        except Unresolved as error:
            wrong.append(f"{name} ({error})")
            continue
        if name in SECRET:
            redaction.mask_secrets([found[name]])
    if not wrong:
        wrong += _find_unknown(found)
    if wrong:
        raise Misconfigured("\n".join(f"{source}: {redaction.redact(one)}" for one in wrong))
    return found


def _shown_name(name: str) -> str:
    return repr(name) if re.fullmatch(r"[a-z._]{1,60}", name) else "a property"


def _replacement_hint(name: str) -> str:
    if name in ("bootstrap.servers", "metadata.broker.list"):
        return f"set {KAFKA.variable} instead"
    return "Firnline decides this one, its deliveries rest on it; take it out"


def _find_unknown(properties: Mapping[str, str]) -> list[str]:
    """Return librdkafka's errors for each property that it does not take, and for all together: a
    client that is made connects to no broker yet. One at a time, because it names only the
    first."""
    from confluent_kafka import KafkaException  # 70 ms, which few commands need
    from confluent_kafka.admin import AdminClient

    try:
        AdminClient({**QUIET, **properties})
    except KafkaException as error:
        hint = ""
        if any(name.startswith(JAVA_ONLY) for name in properties):
            hint = "; that is a property of Java clients: see docs/deploy/secure-kafka-and-redis.md"
        return [f"{error.args[0].str()}{hint}"]
    return []
