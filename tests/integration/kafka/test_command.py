"""`firnline` as its own principal, and what it prints as Kafka's own tool takes it."""

from __future__ import annotations

import os
import shlex
import subprocess
import time
import uuid
from pathlib import Path

import pytest
from click.testing import CliRunner
from confluent_kafka.admin import AclBindingFilter, AclOperation, AclPermissionType
from confluent_kafka.admin import ResourcePatternType as Pattern
from confluent_kafka.admin import ResourceType as Kind
from firnline_adapters.kafka.worker_directives import KafkaDirectives
from firnline_adapters.records.signing import signer_here
from firnline_cli.__main__ import main
from firnline_cli.shared.topic_reader import KafkaTopics
from firnline_domain.identity import TableName
from firnline_domain.records.orders import ResyncTable
from firnline_local.servers import artifacts
from firnline_local.servers.java import find_java
from firnline_local.servers.repository import repository_root

from tests.kit.secured_kafka import ADMIN, PASSWORDS, PREFIX, SecuredKafka

# Kafka's own tools, which nothing but this test needs.
TOOLS = (
    artifacts.PinnedArtifact(
        "cb7aedcd2e418b86079c4b35257c8e37800eea84723c78c8b90f535bd589888e",
        "org/apache/kafka/kafka-tools/4.1.2/kafka-tools-4.1.2.jar",
    ),
    artifacts.PinnedArtifact(
        "df26cc58f235f477db07f753ba5a3ab243ebe5789d9f89ecf68dd62ea9a66c28",
        "net/sf/jopt-simple/jopt-simple/5.0.4/jopt-simple-5.0.4.jar",
    ),
)
pytestmark = [pytest.mark.stack, pytest.mark.timeout(120)]


def written(path: Path, properties: dict[str, str]) -> str:
    path.write_text("".join(f"{name}={one}\n" for name, one in properties.items()))
    return str(path)


@pytest.mark.long
def test_adopt_reads_and_asks_as_its_principal(secured: SecuredKafka) -> None:
    topics = KafkaTopics(secured.scram(f"{PREFIX}cli"), signer_here())
    before = topics.count_unread("resync-requests", "enricher")
    uuid_ = uuid.uuid4().hex
    order = ResyncTable(
        TableName(uuid_, ("db",), "t"), "main", None, None, "test", time.time_ns() // 1_000_000
    )
    topics.send("resync-requests", uuid_, order)
    assert topics.count_unread("resync-requests", "enricher") == before + 1
    for topic in ("table-states", "maintenance-events", "operator-orders"):
        assert list(topics.new_records(topic, lambda _: True)) is not None


def test_an_operator_pauses_the_fleet(secured: SecuredKafka, tmp_path: Path) -> None:
    connection = secured.scram(f"{PREFIX}cli")
    environment = {
        "FIRNLINE_KAFKA": connection.servers,
        "FIRNLINE_KAFKA_CONFIG": written(tmp_path / "cli", dict(connection.properties)),
        "FIRNLINE_CATALOG_URI": "http://127.0.0.1:1",
    }
    done = CliRunner().invoke(main, ["pause", "--fleet", "--reason", "test"], env=environment)
    assert done.exit_code == 0, done.output
    topics = KafkaTopics(connection, signer_here())
    assert any(topics.new_records("operator-orders", lambda _: True))
    CliRunner().invoke(main, ["resume", "--fleet"], env=environment)
    wrong = {**environment, "FIRNLINE_KAFKA_CONFIG": "/not/there"}
    refused = CliRunner().invoke(main, ["pause", "--fleet"], env=wrong)
    assert refused.exit_code == 1
    assert "FIRNLINE_KAFKA_CONFIG=/not/there" in refused.output
    assert "Traceback" not in refused.output


def test_the_supervisor_reads_what_sizes_its_worker(secured: SecuredKafka) -> None:
    KafkaDirectives(secured.plain(f"{PREFIX}local"), signer=signer_here()).close()


@pytest.mark.long
def test_the_printed_commands_are_run_word_for_word(secured: SecuredKafka, tmp_path: Path) -> None:
    """By the tool that comes with Kafka, for another fleet of the same cluster."""
    config = written(
        tmp_path / "admin.properties",
        {
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "PLAIN",
            "sasl.jaas.config": "org.apache.kafka.common.security.plain.PlainLoginModule required "
            f'username="{ADMIN}" password="{PASSWORDS[ADMIN]}";',
        },
    )
    tool = tmp_path / "kafka-acls.sh"
    more = artifacts.fetch_pins(TOOLS, artifacts.cache_root(), repository_root)
    paths = os.pathsep.join([artifacts.join_class_path("kafka"), *map(str, more)])
    call = [
        find_java(),
        "-XX:TieredStopAtLevel=1",
        "-cp",
        paths,
        "org.apache.kafka.tools.AclCommand",
    ]
    tool.write_text(f'#!/bin/sh\nexec {shlex.join(call)} "$@"\n')
    tool.chmod(0o755)
    said = ["kafka-acls", "--service", "gateway", "--principal-prefix", "other-"]
    servers = secured.plain(ADMIN).servers
    printed = CliRunner().invoke(
        main, [*said, "--bootstrap-server", servers, "--command-config", config]
    )
    script = tmp_path / "acls.sh"
    script.write_text(printed.stdout)
    path = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"}
    done = subprocess.run(["sh", "-e", str(script)], env=path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    everything = AclBindingFilter(
        Kind.ANY,
        None,
        Pattern.ANY,
        "User:other-gateway",
        None,
        AclOperation.ANY,
        AclPermissionType.ANY,
    )
    admin = secured.admin()
    found = admin.describe_acls(everything).result()
    assert len(found) == printed.stdout.count("--operation")
    assert {one.permission_type for one in found} == {AclPermissionType.ALLOW}
