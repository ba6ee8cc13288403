"""The load of the planner's buckets, and the tables that it has moved, read from the broker."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from firnline_domain.records.assignments import Board
from firnline_local.processes.ports import LOOPBACK
from firnline_local.stack.state import StateDir

from firnline_cli.shared.formats import count_of

SHOWN = 5  # assignments, the newest


def read_buckets(place: StateDir) -> dict[str, Any] | None:
    """Return the buckets of the stack that runs there; None if its broker does not answer."""
    from click import ClickException
    from confluent_kafka import KafkaException
    from firnline_adapters.kafka.assignments import KafkaAssignments
    from firnline_domain.errors import RetryLater

    from firnline_cli.shared.fleet import homes_of

    stack = place.read_record()
    if "kafka" not in stack.parts:  # a part of the stack was asked for
        return None
    kafka = f"{LOOPBACK}:{stack.ports['kafka']}"
    try:
        assignments = KafkaAssignments(kafka, Board(homes_of(kafka)), place.signer())
    except (ClickException, KafkaException, RetryLater):
        return None
    assignments.close()
    return describe_board(assignments.board)


def describe_board(board: Board) -> dict[str, Any]:
    """Return the board as JSON."""
    newest = sorted(board.all_assignments, key=lambda one: -one.at_ms)
    return {
        "loads": {bucket: board.reported_load(bucket) for bucket in range(board.buckets)},
        "assigned": len(newest),
        "newest": [
            {"table": one.table_key, "bucket": one.bucket, "why": one.reason, "at_ms": one.at_ms}
            for one in newest[:SHOWN]
        ],
    }


def bucket_lines(found: dict[str, Any], names: Mapping[str, str]) -> list[str]:
    """Return the lines of text; nothing for a deployment that never had to move a table. `names`:
    of tables by key."""
    loads, newest = found["loads"], found["newest"]
    hottest = max(loads, key=lambda one: loads[one])
    total = sum(loads.values())
    if not newest:
        return []
    return [
        f"{len(loads)} buckets, {total} steps a minute; the hottest is {hottest} with "
        f"{loads[hottest]}. {count_of(found['assigned'], 'assignment')} of tables, the newest:",
        *(
            f"  {names.get(one['table'], one['table'])} to bucket {one['bucket']} ({one['why']})"
            for one in newest
        ),
    ]
