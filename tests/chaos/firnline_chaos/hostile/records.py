"""Records that no service of ours writes: on every topic, of every kind."""

from __future__ import annotations

import random
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

from firnline_adapters.records.codec import encode_record, from_plain
from firnline_adapters.records.signing import unsigned_topics
from firnline_domain.base.values import to_plain
from firnline_domain.identity import bucket_of
from firnline_schemas import codec
from firnline_schemas.topics import Topic, all_topics

from firnline_chaos.hostile.values import mutated
from tests.examples import FOLDER, make

BUCKETS = 8
SERVED = {"enricher", "planner", "worker", "committer"}
"""Their readers refuse by a dead letter; a console or a supervisor logs, and goes on."""
HEADER = "chaos-hostile"
"""Of every record of the tenant's: what looks on does not take it for one of Firnline's."""
UNSIGNED = 0.4  # share of the records, where anything is signed
UNREAD = {"bucket-assignments", "table-handovers", "ticks"}
"""The embedded stack assigns no table to a bucket, and its planner's driver makes its own ticks."""


@dataclass(frozen=True)
class HostileRecord:
    """A record for a topic. `refused`: some service has to answer it with a dead letter. `signed`:
    by the fleet's own key, as whoever has taken over a service could."""

    kind: str
    topic: str
    partition: int
    key: bytes | None
    value: bytes | None
    refused: bool
    signed: bool = True


@dataclass(frozen=True)
class Tenant:
    """The tables that hostile records speak of."""

    table: dict[str, Any]  # as records have it: uuid, namespace, name


def marked(message: Any) -> bool:
    """Whether the tenant wrote it."""
    return any(name == HEADER for name, _ in message.headers() or ())


def draw(tenant: Tenant, dice: random.Random) -> HostileRecord:
    """One record, of a topic and a kind that the dice choose."""
    topic = dice.choice([one for one in all_topics() if one.name != "schemas"])
    record = dice.choice(KINDS)(tenant, topic, dice)
    if dice.random() < UNSIGNED and topic.name not in unsigned_topics():
        return replace(record, kind=f"unsigned {record.kind}", refused=_served(topic), signed=False)
    return record


def _garbage(tenant: Tenant, topic: Topic, dice: random.Random) -> HostileRecord:
    """Bytes that are no record."""
    value = dice.choice(
        (
            None,
            b"",
            b"\xff\xfe not avro",
            codec.MARKER,
            codec.MARKER + dice.randbytes(8) + b"\x00" * 20,
            codec.MARKER + dice.randbytes(200),
            dice.randbytes(400_000),
        )
    )
    compacted = "compact" in topic.config.get("cleanup.policy", "")
    # None is a tombstone where a topic is compacted: it takes the key's last record away.
    refused = _served(topic) and not (compacted and value is None)
    return _at(tenant, topic, "garbage", value, dice, refused)


def _truncated(tenant: Tenant, topic: Topic, dice: random.Random) -> HostileRecord:
    """A real record whose end, or some bytes in the middle, are missing."""
    whole = encode_record(_example(tenant, topic, dice))
    cut = dice.randrange(codec.HEADER_BYTES, len(whole))
    return _at(tenant, topic, "truncated", whole[:cut], dice, _served(topic))


def _foreign(tenant: Tenant, topic: Topic, dice: random.Random) -> HostileRecord:
    """A record that has no business on this topic."""
    names = [one for one in codec.record_names() if one not in topic.records and _examples(one)]
    record = _tenants(tenant, dice.choice(_examples(dice.choice(names))))
    return _at(tenant, topic, "foreign", encode_record(record), dice, _served(topic))


def _mutated(tenant: Tenant, topic: Topic, dice: random.Random) -> HostileRecord:
    """What the schema allows: huge, negative, empty, in a million years."""
    record = _example(tenant, topic, dice)
    name = type(record).__name__
    fields = mutated(codec.newest(name), to_plain(record), dice, dice.choice((0.1, 0.3, 0.8)))
    return _at(tenant, topic, "mutated", codec.encode(name, fields), dice, refused=False)


def _misplaced(tenant: Tenant, topic: Topic, dice: random.Random) -> HostileRecord:
    """In another table's partition, under another key, or under none."""
    value = encode_record(_example(tenant, topic, dice))
    partition = dice.randrange(topic.partitions(BUCKETS))
    key = dice.choice((None, b"", b"\xff\xfe", str(uuid.UUID(int=dice.getrandbits(128))).encode()))
    return HostileRecord("misplaced", topic.name, partition, key, value, refused=False)


KINDS: tuple[Callable[[Tenant, Topic, random.Random], HostileRecord], ...] = (
    _garbage,
    _truncated,
    _foreign,
    _mutated,
    _mutated,
    _mutated,
    _misplaced,
)


def _at(
    tenant: Tenant, topic: Topic, kind: str, value: bytes | None, dice: random.Random, refused: bool
) -> HostileRecord:
    uuid_text = tenant.table["uuid"]
    place = bucket_of(uuid_text, BUCKETS) % topic.partitions(BUCKETS)
    return HostileRecord(kind, topic.name, place, uuid_text.encode(), value, refused)


def _served(topic: Topic) -> bool:
    return bool(SERVED & set(topic.read_by)) and topic.name not in UNREAD


def _example(tenant: Tenant, topic: Topic, dice: random.Random) -> Any:
    known = [one for name in topic.records for one in _examples(name)] or _examples("TickPassed")
    return _tenants(tenant, dice.choice(known))


def _examples(record: str) -> list[Any]:
    return [one for one in _all_examples() if type(one).__name__ == record]


def _all_examples(known: list[Any] = []) -> list[Any]:  # noqa: B006  read once
    if not known:
        known += [make(path) for path in _paths()]
    return known


def _paths() -> Iterator[str]:
    for folder in FOLDER.iterdir():
        for file in folder.iterdir():
            yield f"{folder.name}/{file.name.removesuffix('.json')}"


def _tenants(tenant: Tenant, record: Any) -> Any:
    """The record, of the tenant's table."""
    fields = to_plain(record)
    _rename(fields, tenant.table)
    return from_plain(type(record).__name__, fields)


def _rename(value: Any, table: dict[str, Any]) -> None:
    if isinstance(value, dict):
        for key, item in value.items():
            if key == "table" and isinstance(item, dict):
                value[key] = dict(table)
            elif key == "table_key":
                value[key] = table["uuid"]
            else:
                _rename(item, table)
    elif isinstance(value, list | tuple):
        for item in value:
            _rename(item, table)
