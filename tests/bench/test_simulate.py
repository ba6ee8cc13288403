"""The simulator: the same for the same seed, nothing lost, nobody asked too rarely."""

from __future__ import annotations

from dataclasses import asdict

import numpy as np
import pytest
from firnline_domain.base.values import replace
from firnline_domain.settings.thresholds import Thresholds

from bench.simulate import sweep
from bench.simulate.figures import added, course_of, figures_of, table_of, verdicts_of
from bench.simulate.firnline import Firnline
from bench.simulate.fleet import Fleet, fleet_of
from bench.simulate.lake import (
    BYTES,
    COHORTS,
    FILES,
    LARGE,
    MASKED,
    PENDING,
    POSITIONS,
    Lake,
    kill,
    lake_of,
)
from bench.simulate.parameters import DAY_S, DEAR, MB, READERS, Parameters
from bench.simulate.peers import Peer
from bench.simulate.reading import scan_of
from bench.simulate.run import SYSTEMS, simulated, system_of
from bench.simulate.tasks import Choice, batch_of, finish
from bench.simulate.world import World
from tests.kit.long_run import mark_long

SMALL = replace(Parameters(), tables=60, days=0.3, warm_days=0.1)
NOT_FIGURES = ("simulator_cpu_s",)


@pytest.mark.parametrize("name", mark_long(SYSTEMS, but=["firnline"]))
def test_the_same_seed_gives_the_same_figures(name: str) -> None:
    one, other = simulated(name, SMALL), simulated(name, SMALL)
    for key in NOT_FIGURES:
        one.pop(key), other.pop(key)
    assert one == other
    assert one["writers_commits"] > 100
    third = simulated(name, replace(SMALL, seed=4))
    assert third["writers_commits"] != one["writers_commits"]


@pytest.mark.parametrize("name", mark_long(SYSTEMS, but=["firnline"]))
def test_no_live_row_is_lost_and_no_count_is_negative(name: str) -> None:
    """Whatever a system does, the live bytes are those that were written."""
    p = replace(SMALL, days=1.5)
    idle, busy = World(p), World(p)
    idle.run(Peer(idle))
    busy.run(system_of(name, busy))
    held = busy.lake.all
    assert held.cohorts[: POSITIONS + 1].min() >= 0
    assert (held.dead <= held.bytes + 1e-3).all()
    live = [world.lake.all.live.sum(axis=1) for world in (idle, busy)]
    assert np.allclose(live[0], live[1], rtol=1e-9, atol=4096)
    assert busy.ledger.tasks > 0 or "night" in name


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
    sums = [simulated(name, SMALL) for name in SYSTEMS]
    assert len({one["writers_commits"] for one in sums}) == 1
    assert len({one["ingested"] for one in sums}) == 1


def test_what_was_before_the_judged_days_does_not_count() -> None:
    whole = simulated("amoro", replace(SMALL, days=0.4, warm_days=0.0))
    judged = simulated("amoro", SMALL)
    assert 0 < judged["tasks"] < whole["tasks"]
    assert judged["reads_reads"] < whole["reads_reads"]


def one_unit(**fields: object) -> tuple[Fleet, Parameters]:
    """A fleet of one partition that nobody commits to."""
    quiet = tuple(replace(kind, period_s=1e6, by_day=0.0) for kind in SMALL.kinds)
    p = replace(SMALL, tables=1, partitions=(1,), kinds=quiet)
    fleet = fleet_of(p)
    made = {name: np.array([value]) for name, value in fields.items()}
    return Fleet(**{**fleet.__dict__, **made}), p


def test_a_rewrite_packs_as_full_as_can_be() -> None:
    lake, target = Lake(3), 128.0 * MB
    sizes = np.array([0.4, 1.05, 2.3]) * target
    lake.put_whole(np.arange(3), sizes, np.zeros((2, 3)), 0.0, target)
    held = lake.all
    assert held.files.sum(axis=1).tolist() == [1, 1, 3]
    assert held.files[:, LARGE].sum(axis=1).tolist() == [0, 1, 2]
    assert np.allclose(held.bytes.sum(axis=1), sizes)


def test_a_tidy_lake_has_no_amplification() -> None:
    world = World(SMALL)
    scan = scan_of(lake_of(world.fleet, SMALL).all, SMALL)
    there = scan.ideal_s > 1
    assert there.sum() > 10
    assert np.allclose(scan.cost_s[there], scan.ideal_s[there], rtol=2e-2)


def test_masked_rows_cost_a_reader_what_was_measured_of_them() -> None:
    fleet, p = one_unit(base_bytes=4.0 * 128 * MB)
    lake = lake_of(fleet, p)
    tidy = scan_of(lake.all, p)
    masked = 128.0 * MB
    lake.cohorts[MASKED, 0, LARGE.start] = masked
    for reading in (p.reading, DEAR):
        spared = reading.scan_s_per_byte - reading.masked_s_per_byte
        each = reading.position_s_per_record / p.row_bytes
        before = scan_of(lake_of(fleet, p).all, replace(p, reading=reading))
        scan = scan_of(lake.all, replace(p, reading=reading))
        assert scan.cost_s[0] - before.cost_s[0] == pytest.approx(masked * (each - spared))
        assert scan.ideal_s[0] < before.ideal_s[0]
    assert scan_of(lake.all, p).cost_s[0] < tidy.cost_s[0]


def test_deletes_cost_readers_for_every_file_they_reach() -> None:
    fleet, p = one_unit(base_bytes=4.0 * 128 * MB)
    lake = lake_of(fleet, p)
    tidy = scan_of(lake.all, p).cost_s
    lake.came += np.array([[2], [1_000]])  # after all that is there
    scan = scan_of(lake.all, p)
    assert scan.applications.tolist() == [2 * 4]
    r = p.reading
    extra = 2 * r.open_s + 1_000 * 4 * r.delete_s_per_record
    assert np.allclose(scan.cost_s - tidy, extra)


@pytest.mark.parametrize(("recent_s", "least", "most"), [(0.0, 0.11, 0.13), (3_600.0, 0.9, 1.0)])
def test_upserts_hit_all_rows_alike_or_mostly_the_last_hours(
    recent_s: float, least: float, most: float
) -> None:
    fleet, p = one_unit(base_bytes=0.0, recent_s=recent_s, upsert=True)
    lake, target = Lake(1), p.target_bytes
    none = np.zeros((2, 1))
    for files, born in ((7.0, -2 * DAY_S), (1.0, 0.0)):  # an old cohort, and an eighth that is new
        lake.put(np.array([0]), np.array([files]), np.array([1.0 * target]), none, born, target)
    kill(lake, fleet, np.array([0]), np.array([0.1 * target]), 60.0, pending=True)
    dead = lake.cohorts[PENDING, 0]
    assert dead.sum() == pytest.approx(0.1 * target)
    assert least < dead[LARGE.start + 1] / dead.sum() < most


def test_what_dies_while_its_files_are_rewritten_is_dead_in_the_outputs() -> None:
    fleet, p = one_unit(base_bytes=4.0 * 128 * MB, upsert=True, recent_s=0.0)
    lake, units = lake_of(fleet, p), np.array([0])
    choice = Choice(np.ones((1, COHORTS)), np.zeros((1, COHORTS)), np.array([True]))
    lake.came += np.array([[1], [1_000]])
    kill(lake, fleet, units, np.array([40.0 * MB]), 60.0, pending=True)
    batch = batch_of(p, units, lake.of(units), choice)
    lake.came += np.array([[1], [1_000]])
    kill(lake, fleet, units, np.array([30.0 * MB]), 120.0, pending=True)
    live = lake.all.live.sum()
    finish(lake, batch, p.target_bytes)
    held = lake.all
    assert held.live.sum() == pytest.approx(live)
    assert held.cohorts[PENDING].sum() == pytest.approx(30 * MB)  # the first 40 are gone
    assert held.deletes.tolist() == [1]  # the second one, which came meanwhile


def test_a_conversion_leaves_one_file_of_positions_for_each_data_file() -> None:
    fleet, p = one_unit(base_bytes=4.0 * 128 * MB, upsert=True, recent_s=0.0)
    lake, units = lake_of(fleet, p), np.array([0])
    choice = Choice(np.zeros((1, COHORTS)), np.ones((1, COHORTS)), np.array([True]))
    for _ in range(2):
        lake.came += np.array([[1], [1_000]])
        kill(lake, fleet, units, np.array([40.0 * MB]), 60.0, pending=True)
        finish(lake, batch_of(p, units, lake.of(units), choice), p.target_bytes)
    held = lake.all
    assert held.positions.sum() == pytest.approx(4)
    assert held.cohorts[MASKED].sum() == pytest.approx(80 * MB)
    assert held.cohorts[PENDING].sum() == pytest.approx(0)
    assert (held.deletes.sum(), held.cohorts[FILES].sum()) == (0, 4)
    assert held.cohorts[BYTES].sum() == pytest.approx(4 * 128 * MB)


def test_partitions_by_day_open_close_and_cool() -> None:
    p = replace(SMALL, tables=300, days=3.0, warm_days=0.0, late_share=0.0)
    world = World(p)
    world.run(Peer(world))
    fleet, last = world.fleet, p.ticks - 1
    by_day = fleet.closes < p.ticks  # among them those that were closed before
    written = world.lake.all.bytes.sum(axis=1) > fleet.base_bytes + 1
    before = by_day & (fleet.closes <= 0)
    assert before.sum() > 20
    assert not written[before].any()
    assert written[by_day & (fleet.opens >= 0)].mean() > 0.9
    reads = fleet.reads(last, p)
    closed = by_day & (fleet.opens >= 0)
    days = np.ceil((last - fleet.closes[closed]) * p.tick_s / DAY_S)
    assert (reads[closed] < fleet.reads_per_s[closed] * np.exp2(1 - days)).all()
    assert (reads[fleet.opens > last] == 0).all()


def test_late_rows_come_to_closed_days() -> None:
    p = replace(SMALL, tables=300, days=3.0, warm_days=0.0)
    world = World(p)
    world.run(Peer(world))
    fleet = world.fleet
    closed = (fleet.closes <= 0) & (fleet.closes > -DAY_S / p.tick_s)
    assert (world.lake.all.bytes.sum(axis=1) > fleet.base_bytes + 1)[closed].any()


def test_orders_wait_where_there_are_few_workers() -> None:
    many = simulated("hourly_convert", replace(SMALL, workers_per_table=1.0))
    few = simulated("hourly_convert", replace(SMALL, workers_per_table=1e-9))
    assert many["waited_s"] == 0
    assert few["waited_s"] > 60
    assert few["longest_wait_s"] > few["waited_s"] / few["tasks"]


def test_without_reports_the_default_is_believed_and_with_them_what_readers_do() -> None:
    p = replace(SMALL, days=0.2, warm_days=0.0)
    systems = []
    for heat in (False, True):
        world = World(p)
        systems.append(Firnline(world, Thresholds(target_bytes=p.target_bytes), heat=heat))
        world.run(systems[-1])
    assert set(systems[0]._reads) == {2.0}
    believed, fleet = systems[1]._reads, systems[1].world.fleet
    assert believed.min() == 2.0
    true = np.bincount(fleet.table, fleet.reads(p.ticks, p) * 3_600, minlength=fleet.tables)
    busy = np.flatnonzero(true > 30)
    most = np.array([believed[fleet.table == table].max() for table in busy])
    assert (most > 2).any()
    assert (most <= 2 * true[busy]).all()  # no scan counts for more than the whole table


@pytest.mark.long
def test_shards_add_up_to_their_fleet() -> None:
    """As many writers, the same fleet; each shard has random numbers of its own."""
    p = replace(SMALL, days=3.0, late_share=0.0)
    whole = figures_of(simulated("amoro", p), p.days)
    parts = [simulated("amoro", replace(p, first=a, last=b)) for a, b in ((0, 25), (25, 60))]
    both = figures_of(added(*parts), p.days)
    assert both["writers_commits"] == whole["writers_commits"]
    assert both["ingested_gb"] == pytest.approx(whole["ingested_gb"], rel=0.1)
    assert both["looks_per_hour"] == whole["looks_per_hour"]
    assert [one["day"] for one in both["samples"]] == [one["day"] for one in whole["samples"]]


def test_what_is_printed() -> None:
    names = ("amoro", "bin_pack_nightly")
    figures = {name: figures_of(simulated(name, SMALL), SMALL.days) for name in names}
    table, course = table_of(figures).splitlines(), course_of(figures).splitlines()
    assert table[0] == "| | amoro | bin_pack_nightly |"
    assert f"| rewrites | {figures['amoro']['tasks']:,} |" in "\n".join(table)
    assert len(course) == 4
    assert course[2].startswith("| amoro | ")


def test_other_judges_of_a_run_change_nothing_of_it() -> None:
    found = sweep.figures("amoro", SMALL)
    assert set(found) == {sweep.PUBLISHED, *READERS}
    assert len({one["amoro"]["gb_hours"] for one in found.values()}) == 1
    published = figures_of(simulated("amoro", SMALL), SMALL.days)
    same = found["as published"]["amoro"]
    assert same["amplification"] == pytest.approx(published["amplification"])
    dear, cheap = (found[f"opening a file: {ms} ms"]["amoro"] for ms in ("30", "0.3"))
    assert dear["amplification"] > cheap["amplification"]
    dearer = found["a dearer reader"]["amoro"]["amplification"]
    assert dearer == pytest.approx(published["dear_amplification"])
    assert dearer != pytest.approx(published["amplification"], rel=1e-4)


def test_a_bar_is_met_by_cost_and_by_reads() -> None:
    theirs = {"gb_hours": 10.0, "amplification": 1.2}
    ours = {"gb_hours": 6.0, "amplification": 1.2}
    assert sweep.holds(ours, theirs, 0.6)
    assert not sweep.holds(ours, theirs, 0.5)
    assert not sweep.holds({**ours, "amplification": 1.21}, theirs, 0.6)


def test_a_verdict_names_the_engine_and_the_reader_that_it_holds_for() -> None:
    def system(gb_hours: float, own: float, amplification: float, dear: float) -> dict[str, float]:
        return {
            "gb_hours": gb_hours,
            "own_gb_hours": own,
            "amplification": amplification,
            "dear_amplification": dear,
        }

    found = {
        "firnline": system(5.0, 5.0, 1.1, 1.2),
        "amoro": system(10.0, 10.0, 1.1, 1.199),
        "script": system(6.0, 60.0, 2.0, 2.0),
        "tidier": system(90.0, 90.0, 1.0, 1.0),
    }
    lines = verdicts_of(found).splitlines()
    assert lines[2].startswith("| amoro | 50% and 50%: **met** (one engine and its own), Spark")
    assert "; **not met**, a dearer reader 1.2 against 1.199" in lines[2]
    assert lines[3].startswith("| script | 83% and 8%: **met** (its own), Spark 1.1 against 2;")
    assert lines[4].count("**not met**") == 2
    assert "**met**" not in lines[4]
