"""What `firnline kafka-acls` prints is enough for each service, and no more than that."""

from __future__ import annotations

import json
import shlex
import uuid
from typing import Any

import pytest
from click.testing import CliRunner
from confluent_kafka import KafkaError, KafkaException, Producer
from confluent_kafka.admin import AclOperation, NewTopic
from firnline_adapters.kafka.connection import client_config, reader_group
from firnline_adapters.kafka.questions import ask_broker
from firnline_adapters.kafka.startup import KafkaProbe, require_kafka, topic_operations
from firnline_adapters.kafka_admin.acls import CLI_READS, SERVICES, Acl
from firnline_adapters.kafka_admin.replication import Replication
from firnline_adapters.observability.logs import Log
from firnline_cli.__main__ import main
from firnline_domain.errors import Misconfigured
from firnline_local.topics.topics import make_topics
from firnline_planner.drivers.kafka import changelog
from firnline_planner.drivers.kafka.clients import KafkaClients
from firnline_schemas.topics import all_topics

from tests.kit.secured_kafka import PREFIX, SecuredKafka

pytestmark = [pytest.mark.stack, pytest.mark.timeout(120)]
GROUPS = {
    "enricher": "enricher",
    "committer": "committer",
    "worker": "worker.etl",
    "console": f"firnline-console-{uuid.uuid4().hex}",
    "planner": "planner",
}
READ, WRITE = AclOperation.READ, AclOperation.WRITE


def allowed(service: str) -> dict[str, set[AclOperation]]:
    extra = {name: {READ} for name in CLI_READS} if service == "cli" else {}
    files = topic_operations(service)
    return {name: files.get(name, set()) | extra.get(name, set()) for name in {*files, *extra}}


@pytest.mark.parametrize("service", SERVICES)
def test_each_may_do_what_its_topics_say_and_nothing_else(
    secured: SecuredKafka, service: str
) -> None:
    probe = KafkaProbe(secured.plain(PREFIX + service))
    assert probe.list_problems(allowed(service)) == []
    for one in all_topics():
        for operation in {READ, WRITE} - allowed(service).get(one.name, set()):
            assert probe.list_problems({one.name: {operation}}) != [], (one.name, operation)


@pytest.mark.parametrize("service", SERVICES)
def test_the_broker_takes_no_record_for_any_other_topic(
    secured: SecuredKafka, service: str
) -> None:
    others = [one for one in all_topics() if WRITE not in allowed(service).get(one.name, set())]
    refused: dict[str, int] = {}
    own = {"delivery.timeout.ms": 15_000, "log_level": 0}
    producer = Producer(client_config(secured.plain(PREFIX + service), own))
    for one in others:
        producer.produce(
            one.name,
            b"x",
            b"k",
            partition=0,
            on_delivery=lambda error, told: refused.update({told.topic(): error.code()}),
        )
    producer.flush(30)
    denied = KafkaError.TOPIC_AUTHORIZATION_FAILED
    assert refused == {one.name: denied for one in others}


@pytest.mark.parametrize("service", SERVICES)
def test_each_has_its_own_group_and_no_others(secured: SecuredKafka, service: str) -> None:
    admin = KafkaClients(secured.plain(PREFIX + service), "x").create_admin()
    named = GROUPS | {"all": reader_group()}
    for owner, group in named.items():
        assert may(admin, group) == (
            {AclOperation.READ, AclOperation.DESCRIBE}
            if owner in (service, "all")
            else {AclOperation.DESCRIBE}
            if (service, owner) == ("cli", "enricher")
            else set()
        ), owner


def may(admin: Any, group: str) -> set[AclOperation]:
    """By the broker's answer, which is an error for groups that it may not see."""

    def asked() -> Any:
        return admin.describe_consumer_groups(
            [group], include_authorized_operations=True, request_timeout=10
        )[group].result()

    try:
        found = ask_broker(asked, 60)
    except KafkaException as error:
        return set() if error.args[0].code() == KafkaError.GROUP_AUTHORIZATION_FAILED else {error}
    return set(found.authorized_operations) & {
        AclOperation.READ,
        AclOperation.DESCRIBE,
        AclOperation.DELETE,
    }


@pytest.mark.parametrize("service", SERVICES)
def test_only_planners_have_transactions(secured: SecuredKafka, service: str) -> None:
    own = {"transactional.id": f"planner-{uuid.uuid4().hex}", "log_level": 0}
    producer = Producer(client_config(secured.plain(PREFIX + service), own))
    if service == "planner":
        producer.init_transactions(30)
    else:
        with pytest.raises(KafkaException) as why:
            producer.init_transactions(30)
        code = why.value.args[0].code()
        assert code == KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED


@pytest.mark.parametrize("service", SERVICES)
def test_only_local_makes_topics(secured: SecuredKafka, service: str) -> None:
    if service == "local":
        make_topics(secured.plain(PREFIX + service), 8)
        return
    admin = KafkaClients(secured.plain(PREFIX + service), "x").create_admin()
    made = admin.create_topics([NewTopic(f"other-{service}", 1, 1)], request_timeout=10)
    with pytest.raises(KafkaException) as why:
        made[f"other-{service}"].result()
    assert why.value.args[0].code() == KafkaError.TOPIC_AUTHORIZATION_FAILED


def test_the_planner_makes_and_widens_its_changelog(secured: SecuredKafka) -> None:
    clients = KafkaClients(secured.plain(f"{PREFIX}planner"), "planner")
    found = changelog.open_changelog(clients, "firnline-planner-state", 2, Replication(1, 1))
    found.add_partitions(3)
    assert found.end_offsets([2]) == {2: 0}
    admin = secured.admin()  # its futures do not outlive it
    admin.delete_topics(["firnline-planner-state"])["firnline-planner-state"].result()


def test_a_lacking_acl_ends_the_start_with_a_line(secured: SecuredKafka) -> None:
    with pytest.raises(Misconfigured) as why:
        require_kafka("committer", secured.plain(f"{PREFIX}gateway"), Log("test"))
    lines = str(why.value).splitlines()
    assert len(lines) == len(topic_operations("committer")) - 1  # it may write dead letters
    assert all("firnline kafka-acls" in line for line in lines)
    assert any("denies us" in line or "not let us see" in line for line in lines)


def test_the_command_prints_what_kafkas_own_tool_takes() -> None:
    said = CliRunner().invoke(main, ["kafka-acls", "--service", "committer"]).stdout
    words = [shlex.split(line) for line in said.splitlines()]
    assert all(one[0] == "kafka-acls.sh" and "--add" in one for one in words)
    assert all("User:firnline-committer" in one for one in words)
    rows = json.loads(
        CliRunner()
        .invoke(
            main,
            ["kafka-acls", "--principal-prefix", "CN=", "--principal-suffix", ",O=x", "--json"],
        )
        .stdout
    )
    assert {one["principal"] for one in rows} == {f"User:CN={service},O=x" for service in SERVICES}


def test_a_right_is_a_command() -> None:
    right = Acl("planner", "transactional-id", "planner-", "prefixed", ("Describe", "Write"))
    assert right.tool_command("User:p", "b:1", "c").endswith(
        "--operation Describe --operation Write --transactional-id 'planner-'"
        " --resource-pattern-type prefixed"
    )
