"""Every number of a record has a range, and what is outside of it is a record for the dead letters.

A record's numbers are summed, multiplied, written to other records and to Redis, by whoever reads
it: what any writer, or a neighbour with rights on the broker, says must not grow beyond what these
can hold.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from firnline_adapters.in_memory import MemoryBroker, MemoryInbox, MemoryPublisher
from firnline_adapters.kafka.dead_letters import dead_letter_of
from firnline_adapters.records.codec import RecordCodec, encode_record, from_plain, record_types
from firnline_adapters.records.record_sizes import Unencodable, encode_to_fit
from firnline_domain.base.values import (
    MAX_AMOUNT,
    Value,
    bound_amount,
    replace,
    to_plain,
    within_longs,
)
from firnline_domain.errors import PoisonousRecord
from firnline_domain.ports import Delivery
from firnline_domain.records.results import RewriteFinished
from firnline_schemas import codec
from msgspec import ValidationError, inspect

from tests.examples import FOLDER, make

EXAMPLES = sorted(
    f"{folder.name}/{entry.name.removesuffix('.json')}"
    for folder in FOLDER.iterdir()
    for entry in folder.iterdir()
)
NAN, INF = float("nan"), float("inf")


def numbers_of(kind: inspect.Type, path: str = "") -> Iterator[tuple[str, Any]]:
    """Every number below a type, with its path."""
    if isinstance(kind, inspect.IntType | inspect.FloatType):
        yield path, kind
    elif isinstance(kind, inspect.StructType):
        for field in kind.fields:
            yield from numbers_of(field.type, f"{path}.{field.name}")
    elif isinstance(kind, inspect.UnionType):
        for one in kind.types:
            yield from numbers_of(one, path)
    elif isinstance(kind, inspect.VarTupleType | inspect.ListType):
        yield from numbers_of(kind.item_type, path)
    elif isinstance(kind, inspect.DictType):
        yield from numbers_of(kind.value_type, path)
    elif isinstance(kind, inspect.TupleType):
        for one in kind.item_types:
            yield from numbers_of(one, path)


@pytest.mark.parametrize("name", sorted(record_types()))
def test_every_number_of_a_record_has_a_range(name: str) -> None:
    numbers = list(numbers_of(inspect.type_info(record_types()[name])))
    assert [path for path, kind in numbers if kind.ge is None or kind.le is None] == []


def with_each_number(plain: Any, number: float) -> Iterator[Any]:
    """The plain record once for each of its numbers of that type, with that one changed."""
    if isinstance(plain, dict):
        for key, value in plain.items():
            yield from ({**plain, key: one} for one in with_each_number(value, number))
    elif isinstance(plain, list):
        for at, value in enumerate(plain):
            changed = with_each_number(value, number)
            yield from ([*plain[:at], one, *plain[at + 1 :]] for one in changed)
    elif type(plain) is type(number):
        yield number


@pytest.mark.parametrize("number", [2**63, -(2**63) - 1, 2**200, NAN, INF, -INF])
@pytest.mark.parametrize("path", EXAMPLES)
def test_no_record_holds_a_number_outside_its_range(path: str, number: float) -> None:
    name = codec.record_name(path.partition("/")[0])
    for plain in with_each_number(to_plain(make(path)), number):
        with pytest.raises(ValidationError):
            from_plain(name, plain)


@pytest.mark.parametrize("claimed", [2**62, MAX_AMOUNT + 1, -1])
def test_a_claim_that_fits_avro_is_refused_where_it_is_read(claimed: int) -> None:
    result: RewriteFinished = make("rewrite_finished/native")
    file = replace(result.groups[0].inputs[0], bytes=claimed)
    group = replace(result.groups[0], inputs=(file,))
    with pytest.raises(PoisonousRecord, match=r"groups.*bytes") as caught:
        RecordCodec().decode(encode_record(replace(result, groups=(group,))))
    assert caught.value.reason == "bad_value"


def unwritable() -> RewriteFinished:
    return replace(make("rewrite_finished/native"), bytes_read=2**63)


def test_what_cannot_be_encoded_goes_aside_and_those_behind_it_arrive() -> None:
    broker = MemoryBroker(1)
    publisher, whole = MemoryPublisher(broker), make("rewrite_finished/native")
    assert not publisher.publish("task-results", "u", unwritable())
    assert publisher.publish("task-results", "u", whole)
    assert [one.record for one in MemoryInbox(broker, "g", ["task-results"]).poll(0)] == [whole]
    [letter] = broker.records("dead-letters")
    assert (letter.reason, letter.topic, letter.key) == ("unencodable", "task-results", b"u")
    assert "RewriteFinished does not fit its schema" in letter.message
    assert b"9223372036854775808" in letter.value


class Strange(Value):
    """No schema knows it."""

    what: Any


@pytest.mark.parametrize(
    "record", [Strange(object()), unwritable(), replace(unwritable(), task_id=7), None, 5]
)
def test_encoding_raises_one_thing_whatever_the_record(record: Any) -> None:
    with pytest.raises(Unencodable):
        encode_to_fit("task-results", "u", record)
    letter = dead_letter_of(Delivery("t", 0, 7, "k", record), "r", ValueError(), "s", 1)
    assert (letter.offset, letter.value) == (7, repr(record).encode())


@pytest.mark.parametrize(
    ("number", "amount"),
    [(3, 3), (-1, 0), (2**60, MAX_AMOUNT), (1e300, MAX_AMOUNT), (INF, MAX_AMOUNT), (NAN, 0)],
)
def test_sums_stop_at_the_highest_amount(number: float, amount: int) -> None:
    assert bound_amount(number) == amount


def test_the_nearest_long_stands_for_a_number_beyond() -> None:
    found = within_longs({"a": [2**80, -(2**80), 5, True, 0.5], "b": "x"})
    assert found == {"a": [2**63 - 1, -(2**63), 5, True, 0.5], "b": "x"}
