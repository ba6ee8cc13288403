"""What a round does, drawn from its seed alone: which writes and faults, where and when.

When a process reaches which line is up to the machine: the same plan does not meet the same moment
twice, but it meets the same kinds of moments.
"""

from __future__ import annotations

import random
from collections.abc import Collection
from dataclasses import dataclass, replace

from firnline_chaos.catalog_proxy import Spoil
from firnline_chaos.tables import BUSY, STEADY, Kind

STORM_S = 90.0
WRITES_PER_S = 1.5
WRITERS = 2
STREAM_PER_S = 5.0  # appends to the busy table, by a writer of its own
DRAWN = 7  # faults of a round beside one of each sort, by weight
HELD = 0.25  # share of writes that take their time between planning and commit


@dataclass(frozen=True)
class Write:
    """One write, at the earliest `at_s` after the storm's start. `dice`: seed of its details."""

    number: str
    at_s: float
    writer: int
    table: str
    kind: str
    hold_s: float
    dice: int


@dataclass(frozen=True)
class Blow:
    """One fault. `target`: a part, a topic ...; `seconds`: how long, where that means something."""

    at_s: float
    fault: str
    target: str
    seconds: float
    dice: int

    @property
    def until_s(self) -> float:
        return self.at_s + self.seconds


@dataclass(frozen=True)
class Plan:
    """A round. `stream`: the busy table's writes; how many of them are done is up to the time."""

    number: int
    writes: tuple[Write, ...]
    blows: tuple[Blow, ...]
    stream: tuple[Write, ...] = ()


@dataclass(frozen=True)
class Sort:
    """A kind of fault, how often it is drawn, and what for how long."""

    fault: str
    weight: int
    targets: tuple[str, ...]
    shortest_s: float = 0.0
    longest_s: float = 0.0


SERVICES = ("gateway", "gateway-2", "enricher", "planner", "committer", "worker", "worker")
SERVERS = ("kafka", "redis", "catalog")
TOPICS = ("table-commits", "file-changes", "rewrite-tasks", "task-results", "maintenance-events")
CLOCKS = ("gateway", "enricher", "planner", "committer", "worker", "console")
SORTS = (
    Sort("kill", 6, (*SERVICES, "console")),
    Sort("kill", 3, SERVERS),
    Sort("pause", 4, SERVICES, 0.5, 14.0),  # a session of a consumer lasts 10 s
    Sort("pause", 2, SERVERS, 0.5, 6.0),
    Sort("kill_child", 2, ("worker", "worker", "committer")),
    Sort("spoil", 8, tuple(Spoil)),
    Sort("cut", 2, ("catalog",), 0.5, 6.0),
    Sort("redeliver", 4, TOPICS),
    Sort("rewind", 2, ("enricher", "committer", "worker"), 0.5, 4.0),
    Sort("fill_disk", 3, (*SERVICES, *SERVERS), 1.0, 6.0),
    Sort("jump_clock", 2, CLOCKS, 2.0, 10.0),
)
INPUT_SORTS = (  # clocks and state are inputs, too
    Sort("jump_clock_far", 6, CLOCKS, 3.0, 20.0),
    Sort("damage_state", 2, ("planner",), 0.5, 1.0),
)
LAKE_SORTS: tuple[Sort, ...] = (  # more of them, where the catalog and its store ask who one is
    *SORTS,
    Sort("end_keys", 4, ("store",)),
    Sort("revoke_tokens", 4, ("catalog",)),
    Sort("throttle", 5, ("store",), 1.0, 8.0),
    Sort("forbid", 2, ("catalog",), 1.0, 8.0),
    Sort("kill", 2, ("store",)),
    Sort("pause", 2, ("store",), 0.5, 6.0),
)
NESSIE_SORTS = tuple(
    # RocksDB, in which it keeps what it knows, takes no write any more after one that failed
    replace(sort, targets=tuple(one for one in sort.targets if one != "catalog"))
    if sort.fault == "fill_disk"
    else sort
    for sort in LAKE_SORTS
)


def draw(
    seed: int,
    number: int,
    sorts: tuple[Sort, ...] = SORTS,
    kinds: tuple[Kind, ...] = STEADY,
) -> Plan:
    """The plan of a round; the same for the same seed and number."""
    dice = random.Random(f"{seed}/{number}")
    writes = _writes(dice, number, kinds)
    return Plan(number, writes, _blows(dice, sorts), _stream(number))


def _writes(dice: random.Random, number: int, kinds: tuple[Kind, ...]) -> tuple[Write, ...]:
    times = sorted(dice.uniform(0, STORM_S) for _ in range(int(STORM_S * WRITES_PER_S)))
    return tuple(
        _write(dice, f"{number}-{n}", at_s, dice.choice(kinds)) for n, at_s in enumerate(times)
    )


def _stream(number: int) -> tuple[Write, ...]:
    times = (n / STREAM_PER_S for n in range(int(STORM_S * STREAM_PER_S)))
    return tuple(
        Write(f"{number}-s{n}", round(at_s, 2), WRITERS, BUSY.name, "append", 0.0, n)
        for n, at_s in enumerate(times)
    )


def _write(dice: random.Random, number: str, at_s: float, kind: Kind) -> Write:
    what = dice.choices(list(kind.writes), list(kind.writes.values()))[0]
    hold_s = dice.uniform(0.2, 2.5) if dice.random() < HELD else 0.0
    writer, seed = dice.randrange(WRITERS), dice.getrandbits(32)
    return Write(number, round(at_s, 2), writer, kind.name, what, round(hold_s, 2), seed)


def _blows(dice: random.Random, sorts: tuple[Sort, ...]) -> tuple[Blow, ...]:
    """One of each sort, then some more by their weight. No part is struck again before the last
    fault on it has ended: whose turn it is waits, and others go before."""
    waiting = dice.sample(sorts, len(sorts))
    waiting += dice.choices(sorts, [one.weight for one in sorts], k=DRAWN)
    times = sorted(dice.uniform(1, STORM_S - 2) for _ in waiting)
    found: list[Blow] = []
    for at_s in times:
        busy = {one.target for one in found if one.until_s + 1 > at_s}
        if fitting := next((one for one in waiting if {*one.targets} - busy), None):
            waiting.remove(fitting)
            found.append(_blow(dice, at_s, fitting, busy))
    return tuple(found)


def _blow(dice: random.Random, at_s: float, sort: Sort, busy: Collection[str]) -> Blow:
    seconds = round(dice.uniform(sort.shortest_s, sort.longest_s), 2)
    target = dice.choice([one for one in sort.targets if one not in busy])
    return Blow(round(at_s, 2), sort.fault, target, seconds, dice.getrandbits(32))
