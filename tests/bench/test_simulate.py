"""The simulator: the same for the same seed, nothing lost, nobody asked too rarely."""

from __future__ import annotations

from dataclasses import asdict, fields

import numpy as np
import pytest
from firnline_domain.settings.thresholds import Thresholds
from firnline_domain.values import replace

from bench.simulate.figures import added, course_of, figures_of, table_of
from bench.simulate.firnline import Firnline
from bench.simulate.lake import Holds, lake_of, put_whole
from bench.simulate.parameters import MB, Parameters
from bench.simulate.peers import Amoro
from bench.simulate.reading import scan_of
from bench.simulate.run import SYSTEMS, simulated, system_of
from bench.simulate.world import World

SMALL = replace(Parameters(), tables=60, days=0.2)
NOT_FIGURES = ("simulator_cpu_s",)


@pytest.mark.parametrize("name", SYSTEMS)
def test_the_same_seed_gives_the_same_figures(name: str) -> None:
    one, other = simulated(name, SMALL), simulated(name, SMALL)
    for key in NOT_FIGURES:
        one.pop(key), other.pop(key)
    assert one == other
    assert one["writers_commits"] > 100
    third = simulated(name, replace(SMALL, seed=4))
    assert third["writers_commits"] != one["writers_commits"]


@pytest.mark.parametrize("name", SYSTEMS)
def test_no_live_row_is_lost_and_no_count_is_negative(name: str) -> None:
    """Whatever a system does, the live bytes are those that were written."""
    idle, busy = World(SMALL), World(SMALL)
    idle.run(Idle())
    busy.run(system_of(name, busy))
    for each in fields(Holds):
        assert getattr(busy.lake, each.name).min() >= -1e-3, each.name
    live = [world.lake.bytes - world.lake.dead_bytes for world in (idle, busy)]
    assert np.allclose(live[0], live[1], atol=4096)


class Idle(Amoro):
    def __init__(self) -> None: ...

    def committed(self, tick: int, units: object) -> None: ...

    def act(self, tick: int) -> None: ...


@pytest.mark.parametrize(
    "limits",
    [Thresholds(), Thresholds(reads_per_hour=60.0, min_fragments=90, min_equality_deletes=90)],
    ids=["by count", "by what readers pay"],
)
def test_units_that_are_not_asked_about_would_not_have_been_ordered(limits: Thresholds) -> None:
    ledgers = []
    for always in (False, True):
        world = World(SMALL)
        limits = replace(limits, target_bytes=SMALL.target_bytes)
        world.run(Firnline(world, limits, ask_always=always))
        ledgers.append(world.ledger)
    one, other = (asdict(ledger) for ledger in ledgers)
    assert one.pop("orders") == other.pop("orders")
    assert one == pytest.approx(other)  # sums of floats, in another order
    assert ledgers[0].tasks > 10


def test_every_system_sees_the_same_writers() -> None:
    seen = {(one["writers_commits"]) for one in (simulated(name, SMALL) for name in SYSTEMS)}
    assert len(seen) == 1


def test_a_rewrite_packs_as_full_as_can_be() -> None:
    lake, target = Holds.nothing(3), 128.0 * MB
    put_whole(lake, np.arange(3), np.array([0.4, 1.05, 2.3]) * target, target)
    assert lake.files.tolist() == [1, 1, 3]
    assert lake.large.tolist() == [0, 1, 2]
    assert np.allclose(lake.bytes, np.array([0.4, 1.05, 2.3]) * target)


def test_a_tidy_lake_has_no_amplification() -> None:
    world = World(SMALL)
    scan = scan_of(lake_of(world.fleet, SMALL), SMALL)
    assert np.allclose(scan.cost_s, scan.ideal_s, rtol=2e-3)


def test_deletes_cost_readers_for_every_file_they_reach() -> None:
    world = World(SMALL)
    lake = lake_of(world.fleet, SMALL)
    tidy = scan_of(lake, SMALL).cost_s
    lake.deletes += 2
    lake.delete_records += 1_000
    scan, files = scan_of(lake, SMALL), lake.segments + lake.fragments / 2
    part = scan.applications / np.maximum(2 * files, 1)
    assert (part > 0).all()
    extra = part * (2 * 0.01 + 1_000 * files * 1.6e-6)
    assert np.allclose(scan.cost_s - tidy, extra)


def amoro_of(**holds: float) -> tuple[World, Amoro]:
    """One unit that nobody commits to, at half an hour."""
    quiet = tuple(replace(kind, period_s=1e6) for kind in SMALL.kinds)
    world = World(replace(SMALL, tables=1, partitions=(1,), kinds=quiet))
    for each in fields(Holds):
        getattr(world.lake, each.name)[:] = holds.get(each.name, 0.0)
    return world, Amoro(world)


@pytest.mark.parametrize(
    ("case", "holds", "minute", "order"),
    [
        ("eleven", {"fragments": 7, "fragment_bytes": 7 * MB, "deletes": 4}, 30, None),
        ("twelve", {"fragments": 8, "fragment_bytes": 8 * MB, "deletes": 4}, 30, "minor"),
        ("two after an hour", {"fragments": 2, "fragment_bytes": 2 * MB}, 60, "minor"),
        ("one after an hour", {"fragments": 1, "fragment_bytes": 1 * MB}, 60, None),
        ("one delete after an hour",
         {"large": 2, "large_bytes": 256 * MB, "deletes": 1, "delete_records": 9}, 60, None),
        ("undersized fill a file",
         {"undersized": 3, "undersized_bytes": 150 * MB}, 30, "major"),
        ("two large undersized", {"undersized": 2, "undersized_bytes": 180 * MB}, 30, None),
        ("a tenth is dead",
         {"large": 1, "large_bytes": 30e6, "positions": 1, "position_records": 1e5 + 1},
         30, "major"),
    ],
)  # fmt: skip
def test_amoro_orders_as_its_code_does(
    case: str, holds: dict[str, float], minute: int, order: str | None
) -> None:
    world, amoro = amoro_of(**holds)
    amoro.act(minute)
    assert list(world.ledger.orders) == ([order] if order else [])


def test_shards_add_up_to_their_fleet() -> None:
    """As many writers, the same fleet; each shard has random numbers of its own."""
    whole = figures_of(simulated("amoro", SMALL), SMALL.days)
    parts = [simulated("amoro", replace(SMALL, first=a, last=b)) for a, b in ((0, 25), (25, 60))]
    both = figures_of(added(*parts), SMALL.days)
    assert both["writers_commits"] == whole["writers_commits"]
    assert both["ingested_gb"] == pytest.approx(whole["ingested_gb"], rel=0.1)
    assert both["looks_per_hour"] == whole["looks_per_hour"]
    assert [one["day"] for one in both["samples"]] == [one["day"] for one in whole["samples"]]


def test_what_is_printed() -> None:
    figures = {name: figures_of(simulated(name, SMALL), SMALL.days) for name in ("amoro", "cron")}
    table, course = table_of(figures).splitlines(), course_of(figures).splitlines()
    assert table[0] == "| | amoro | cron |"
    assert f"| rewrites | {figures['amoro']['tasks']:,} |" in "\n".join(table)
    assert len(course) == 4
    assert course[2].startswith("| amoro | ")
