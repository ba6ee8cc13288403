"""Topics that exist with other settings than are asked for are told of, and changed when asked."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from confluent_kafka.admin import AdminClient, ConfigResource, ResourceType
from firnline_cli.__main__ import main
from firnline_domain.errors import Misconfigured
from firnline_local.topics.topic_options import (
    TopicOptions,
    config_of,
    options_here,
    with_options,
)
from firnline_schemas.topics import all_topics

from tests.kit.secured_kafka import PREFIX, SecuredKafka

pytestmark = [pytest.mark.stack, pytest.mark.timeout(90)]
Run = Callable[..., Result]
WEEK, DAY = 604_800_000, 86_400_000


@pytest.fixture
def run(secured: SecuredKafka, tmp_path: Path) -> Run:
    """`firnline topics` as the user who makes them, with some variables."""
    connection = secured.plain_tls(f"{PREFIX}local")
    config = tmp_path / "local.properties"
    config.write_text("".join(f"{name}={one}\n" for name, one in connection.properties.items()))
    where = {"FIRNLINE_KAFKA": connection.servers, "FIRNLINE_KAFKA_CONFIG": str(config)}

    def invoke(*arguments: str, **variables: str) -> Result:
        return CliRunner().invoke(main, ["topics", *arguments], env={**where, **variables})

    return invoke


def retention(admin: AdminClient, topic: str) -> int:
    one = ConfigResource(ResourceType.TOPIC, topic)
    return int(admin.describe_configs([one])[one].result()["retention.ms"].value)


def test_what_differs_has_a_line_each_and_is_changed_on_demand(
    run: Run, secured: SecuredKafka
) -> None:
    same = run()
    assert same.exit_code == 0, same.output
    first = "replication factor 1 instead of 3, because the cluster has 1 broker"
    assert same.output.splitlines()[0].startswith(first)
    assert len(same.output.splitlines()) == 2
    asked = {"FIRNLINE_TOPIC_CONFIG": json.dumps({"table-commits": {"retention.ms": DAY}})}
    line = f"table-commits: retention.ms asked {DAY}, found {WEEK}: run `firnline topics --apply`"
    told = run("--dry-run", **asked)
    assert line in told.output.splitlines()
    assert told.output.splitlines()[-1].endswith("nothing made")
    assert retention(secured.admin(), "table-commits") == WEEK
    try:
        assert line not in run("--apply", **asked).output
        assert retention(secured.admin(), "table-commits") == DAY
        assert "table-commits" not in run(**asked).output
    finally:
        run("--apply")
    assert retention(secured.admin(), "table-commits") == WEEK


def test_other_partitions_are_refused_with_what_to_do(run: Run) -> None:
    told = run("--dry-run", FIRNLINE_BUCKETS="16")
    words = (
        "advice: partitions asked 16, found 8: keep the FIRNLINE_BUCKETS that the deployment began"
    )
    assert words in told.output
    stopped = run(FIRNLINE_BUCKETS="16")
    assert stopped.exit_code == 1
    assert "has 8 partitions, 16 are wanted" in stopped.output


def test_more_replicas_than_brokers_are_refused(run: Run) -> None:
    stopped = run("--replicas", "3")
    assert stopped.exit_code == 1
    assert "write 1 to 1, the cluster has 1 brokers" in stopped.output


def test_json_has_it_all(run: Run) -> None:
    found = json.loads(run("--json", "--dry-run", FIRNLINE_BUCKETS="16").output)
    assert found["replicas"] == 1
    assert {"topic": "advice", "setting": "partitions", "asked": "16", "found": "8"} in found[
        "differences"
    ]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("x", "write a JSON object of objects"),
        ('{"table-commits": "x"}', "write a JSON object of objects"),
        ('{"table-commits": {"cleanup.policy": "delete"}}', "cleanup.policy cannot be changed"),
        ('{"table-comits": {"retention.ms": 1}}', "there is no topic table-comits"),
    ],
)
def test_what_cannot_be_asked_is_said(text: str, said: str) -> None:
    with pytest.raises(Misconfigured, match=f"FIRNLINE_TOPIC_CONFIG: .*{said}"):
        with_options(all_topics(), TopicOptions(config=config_of(text)))


def test_a_number_that_is_none_is_said() -> None:
    with pytest.raises(Misconfigured, match="FIRNLINE_REPLICAS='three': write a number"):
        options_here({"FIRNLINE_REPLICAS": "three"})
