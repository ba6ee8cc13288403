"""`firnline doctor` on real servers: nothing to say where nothing is wrong; of each planted fault
it names the check that fails, what came and the remedy, and blames nothing else."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

import pytest
import redis
import trustme

from tests.integration.doctor.conftest import asked, failures, with_properties
from tests.kit.long_run import mark_long
from tests.kit.secured_kafka import ADMIN, PASSWORDS, SecuredKafka

pytestmark = [pytest.mark.stack, pytest.mark.timeout(120)]
Environment = dict[str, str]


@dataclass(frozen=True)
class World:
    """What a fault is planted in."""

    secured: SecuredKafka
    kafka: str  # of a broker that lets everybody in
    folder: Path
    monkeypatch: pytest.MonkeyPatch


@dataclass(frozen=True)
class Fault:
    """`plant`: makes the variables of the fleet that has it. What fails because of it is `fails`,
    in words that have `found`, with a remedy that has `remedy`."""

    plant: Callable[[Environment, World], Environment]
    fails: tuple[str, ...]
    found: str
    remedy: str
    words: tuple[str, ...] = ()


def kafka_password(given: Environment, world: World) -> Environment:
    wrong = world.secured.plain(ADMIN, PASSWORDS[ADMIN] + "x")
    return given | with_properties(world.folder, wrong)


def kafka_ca(given: Environment, world: World) -> Environment:
    other = world.folder / "other-ca.pem"
    trustme.CA().cert_pem.write_to_path(other)
    connection = world.secured.plain_tls(ADMIN)
    properties = {**connection.properties, "ssl.ca.location": str(other)}
    return given | with_properties(world.folder, type(connection)(connection.servers, properties))


def kafka_tls(given: Environment, world: World) -> Environment:
    """Plain text to a port that speaks TLS."""
    plain, tls = world.secured.plain(ADMIN), world.secured.plain_tls(ADMIN)
    return given | with_properties(world.folder, type(plain)(tls.servers, plain.properties))


def kafka_away(given: Environment, world: World) -> Environment:
    return given | {"FIRNLINE_KAFKA": "127.0.0.1:1"}


def acl_missing(given: Environment, world: World) -> Environment:
    """The committer's principal asks as a planner."""
    return given | with_properties(world.folder, world.secured.plain("firnline-committer"))


def topic_missing(given: Environment, world: World) -> Environment:
    """Of a group that was named, and whose topics nobody has made."""
    return given | {"FIRNLINE_GROUPS": "etl"}


def replication_wrong(given: Environment, world: World) -> Environment:
    return given | {"FIRNLINE_REPLICAS": "3"}


def partitions_wrong(given: Environment, world: World) -> Environment:
    return given | {"FIRNLINE_BUCKETS": "16"}


def topic_settings(given: Environment, world: World) -> Environment:
    return given | {"FIRNLINE_TOPIC_CONFIG": '{"table-commits": {"retention.ms": "1209600000"}}'}


def key_differs(given: Environment, world: World) -> Environment:
    return given | {"FIRNLINE_SIGNING_KEYS": f"tests:{'6f' * 32}"}


def redis_password(given: Environment, world: World) -> Environment:
    return given | {"FIRNLINE_REDIS": given["FIRNLINE_REDIS"].replace("://", "://u:cAnAry-pw@")}


def redis_away(given: Environment, world: World) -> Environment:
    return given | {"FIRNLINE_REDIS": "redis://127.0.0.1:1/0"}


def redis_acl(given: Environment, world: World) -> Environment:
    """A user who may write other keys than ours."""
    redis.Redis.from_url(given["FIRNLINE_REDIS"]).acl_setuser(
        "doctored",
        enabled=True,
        passwords=["+cAnAry-pw"],
        keys=["others:*"],
        categories=["+@all", "-@dangerous"],
    )
    url = given["FIRNLINE_REDIS"].replace("://", f"://doctored:{quote('cAnAry-pw')}@")
    return given | {"FIRNLINE_REDIS": url}


def clock_behind(given: Environment, world: World) -> Environment:
    real = time.time
    world.monkeypatch.setattr(time, "time", lambda: real() - 3600)
    return given


def no_java(given: Environment, world: World) -> Environment:
    return given | {"JAVA_HOME": "", "PATH": str(world.folder)}


def old_java(given: Environment, world: World) -> Environment:
    home = world.folder / "old"
    (home / "bin").mkdir(parents=True)
    java = home / "bin" / "java"
    java.write_text("#!/bin/sh\necho 'openjdk version \"11.0.2\" 2019-01-15' >&2\n")
    java.chmod(0o755)
    return given | {"JAVA_HOME": str(home)}


def jar_missing(given: Environment, world: World) -> Environment:
    return given | {"FIRNLINE_ICEBERG_JAR": str(world.folder / "none.jar")}


def jar_other(given: Environment, world: World) -> Environment:
    """Of Iceberg, and not the one: that of its core."""
    from firnline_local.servers.artifacts import fetch_jars

    core = next(one for one in fetch_jars("catalog") if one.name.startswith("iceberg-core"))
    return given | {"FIRNLINE_ICEBERG_JAR": str(core)}


def jar_cut(given: Environment, world: World) -> Environment:
    half = world.folder / "iceberg-spark-runtime-4.1_2.13-1.12.0.jar"
    half.write_bytes(Path(given["FIRNLINE_ICEBERG_JAR"]).read_bytes()[: 1 << 20])
    return given | {"FIRNLINE_ICEBERG_JAR": str(half)}


def state_unwritable(given: Environment, world: World) -> Environment:
    (world.folder / "file").touch()
    return given | {"FIRNLINE_STATE_DIR": str(world.folder / "file" / "state")}


RESTS_ON_KAFKA = ("kafka.reach",)
FAULTS = {
    "Kafka: a wrong password": Fault(
        kafka_password, RESTS_ON_KAFKA, "refuses us", "sasl.password in FIRNLINE_KAFKA_CONFIG"
    ),
    "Kafka: its CA is unknown": Fault(
        kafka_ca, RESTS_ON_KAFKA, "certificate", "ssl.ca.location in FIRNLINE_KAFKA_CONFIG"
    ),
    "Kafka: plain text to TLS": Fault(
        kafka_tls, RESTS_ON_KAFKA, "localhost", "security.protocol in FIRNLINE_KAFKA_CONFIG"
    ),
    "Kafka: nobody there": Fault(
        kafka_away, RESTS_ON_KAFKA, "127.0.0.1:1", "FIRNLINE_KAFKA names the brokers"
    ),
    "Kafka: missing ACLs": Fault(
        acl_missing,
        ("kafka.rights.planner", "kafka.transaction"),
        "Kafka denies us Write on topic",
        "firnline kafka-acls --service planner",
        ("--service", "planner"),
    ),
    "Kafka: a missing topic": Fault(
        topic_missing, ("kafka.topics",), "rewrite-tasks.etl", "run `firnline topics`"
    ),
    "Kafka: wrong replication": Fault(
        replication_wrong, ("kafka.topics",), "FIRNLINE_REPLICAS=3", "smaller than"
    ),
    "Kafka: wrong partitions": Fault(
        partitions_wrong, ("kafka.topics",), "8 partitions, not 16", "FIRNLINE_BUCKETS"
    ),
    "Kafka: other settings": Fault(
        topic_settings, ("kafka.settings",), "retention.ms is 604800000", "firnline topics --apply"
    ),
    "another signing key": Fault(
        key_differs, ("kafka.signatures",), "maintenance-events", "FIRNLINE_SIGNING_KEYS"
    ),
    "Redis: a wrong password": Fault(
        redis_password, ("redis.reach",), "password", "user and password in FIRNLINE_REDIS"
    ),
    "Redis: nobody there": Fault(
        redis_away, ("redis.reach",), "refused", "FIRNLINE_REDIS names host and port"
    ),
    "Redis: missing ACLs": Fault(
        redis_acl, ("redis.leases", "redis.view"), "ermission", "~firnline:*"
    ),
    "the clock an hour behind": Fault(
        clock_behind,
        ("clock.redis", "clock.kafka", "clock.catalog.lake"),
        "our clock is 36",
        "set the clock",
    ),
    "no Java": Fault(no_java, ("host.java",), "none found", "JAVA_HOME"),
    "an old Java": Fault(old_java, ("host.java",), "version 11", "17 or newer"),
    "no Iceberg jar": Fault(jar_missing, ("host.jar",), "no such file", "firnline jars"),
    "another jar": Fault(jar_other, ("host.jar",), "not the jar of", "firnline jars"),
    "a damaged jar": Fault(jar_cut, ("host.jar",), "no jar", "firnline jars"),
    "an unwritable state directory": Fault(
        state_unwritable, ("host.state",), "Not a directory", "FIRNLINE_STATE_DIR names a folder"
    ),
}


@pytest.fixture
def world(
    secured: SecuredKafka, kafka: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> World:
    return World(secured, kafka, tmp_path, monkeypatch)


def test_nothing_is_wrong_where_nothing_is(healthy: Environment) -> None:
    code, found, _ = asked(healthy)
    assert (code, failures(found)) == (0, set())
    assert {name for name, lines in found.items() if lines[0]["status"] == "skipped"} <= {
        "clock.kafka",  # the newest record is from before now
        "clock.storage.lake",  # it is local
        "catalog.lake.commit",  # not asked for
        "events.lake",
        "planner.tables",  # no planner runs here
    }


@pytest.mark.parametrize("name", mark_long(FAULTS, but=list(FAULTS)[:3]))
def test_a_planted_fault_is_found(name: str, healthy: Environment, world: World) -> None:
    fault = FAULTS[name]
    code, found, printed = asked(fault.plant(healthy, world), *fault.words)
    assert (code, failures(found)) == (1, set(fault.fails))
    lines = [one for check in fault.fails for one in found[check] if one["status"] == "failed"]
    assert any(fault.found in one["found"] for one in lines), lines
    assert any(fault.remedy in one["remedy"] for one in lines), lines
    assert "cAnAry" not in printed
