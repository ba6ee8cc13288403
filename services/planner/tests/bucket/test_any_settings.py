"""Whatever people write into properties: the planner goes on, and all it tells can be encoded."""

from __future__ import annotations

import random

import pytest
from firnline_adapters.records.codec import RecordCodec, encode_record
from firnline_domain.identity import Scope
from firnline_domain.records.events import PartitionChange, TickPassed
from firnline_domain.records.parts.tallies import FileTally, Tally
from firnline_domain.records.states import TableState
from firnline_domain.settings.thresholds import NAMESPACE, PROPERTIES, Thresholds
from firnline_planner.bucket.bucket import PlannerBucket
from firnline_planner.state.effects import Effects

from tests.kit.changes import delta
from tests.kit.memory_store import MemoryStore
from tests.kit.names import TABLE

NAMES = (*PROPERTIES, "firnline.", "firnline.windows")
NUMBERS = ("0", "1", "-1", "1.5", "nan", "inf", str(10**15), str(10**15 + 1), "9" * 30, "9" * 5000)
TEXTS = (
    *NUMBERS,
    "",
    "true",
    "false",
    "٣",
    "00:00-24:00",
    "Mon 22:00-06:00 Mars",
    "7 days",
    "\x00",
)


def written(chance: random.Random) -> dict[str, str]:
    names = chance.sample(NAMES, chance.randint(0, 8))
    return {chance.choice(("", NAMESPACE)) + name: chance.choice(TEXTS) for name in names}


@pytest.mark.parametrize("seed", range(100))
def test_the_planner_goes_on(seed: int) -> None:
    chance, pairs = random.Random(seed), MemoryStore()
    bucket, now_ms, told = (
        PlannerBucket(pairs, Thresholds(quiet_ms=0)),
        1_795_000_000_000,
        RecordCodec(),
    )

    def take(step: Effects) -> list[object]:
        bucket.commit()
        return [told.decode(encode_record(output.record)) for output in step.outputs]

    for snapshot in range(1, 6):
        added = FileTally(fragments=Tally(9, 9, 9), equality_deletes=Tally(5, 5, 5))
        part = PartitionChange(Scope(0, f'["{snapshot}"]'), added, FileTally())
        change = delta(TABLE, snapshot, now_ms, part, settings=written(chance))
        take(bucket.handle(change, now_ms))
        now_ms += 60_000
        shown = take(bucket.handle(TickPassed(0, now_ms), now_ms))
        assert any(isinstance(record, TableState) for record in shown)
        bucket = PlannerBucket(pairs, Thresholds(quiet_ms=0))  # a restart reads what was kept
