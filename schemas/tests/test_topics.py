"""Every topic file is whole, and agrees with the schemas and the services."""

from __future__ import annotations

from pathlib import Path

import pytest
from firnline_schemas import codec
from firnline_schemas.topics import BadTopicFile, all_topics, parse_topic, topic

ROOT = Path(__file__).parents[2]
GOOD = {
    "name": "x",
    "about": "y",
    "written_by": [],
    "read_by": [],
    "key": "k",
    "records": [],
    "signature": "none",
    "partitions": "buckets",
    "config": {},
}


def test_records_on_topics_are_exactly_the_records_with_schemas() -> None:
    on_topics = {record for entry in all_topics() for record in entry.records}
    assert on_topics == set(codec.record_names())


def test_writers_and_readers_exist() -> None:
    members = {path.name.removeprefix("firnline_") for path in ROOT.glob("*/*/src/firnline_*")}
    named = {name for entry in all_topics() for name in (*entry.written_by, *entry.read_by)}
    assert named <= {*members, "scaler"}  # a program of `local`, in a pod


def test_file_name_is_topic_name() -> None:
    folder = ROOT / "schemas/src/firnline_schemas/topics"
    assert {path.stem for path in folder.glob("*.yaml")} == {entry.name for entry in all_topics()}


def test_topics_read_together_have_the_same_partitions() -> None:
    """The planner's agent reads four topics as one (partitioner hazard, H17: co-partitioned)."""
    together = ("file-changes", "maintenance-events", "operator-orders", "ticks")
    assert {topic(name).partitions(12) for name in together} == {12}


@pytest.mark.parametrize(
    "raw",
    [
        {**GOOD, "aditional": 1},
        {name: value for name, value in GOOD.items() if name != "key"},
        {**GOOD, "partitions": "many"},
        {**GOOD, "signature": "maybe"},
    ],
)
def test_a_bad_topic_file_is_refused(raw: dict[str, object]) -> None:
    with pytest.raises(BadTopicFile):
        parse_topic(raw)
