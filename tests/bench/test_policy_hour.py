"""The accelerated hour: its properties, and how it is held against the simulator."""

from __future__ import annotations

import pytest
from firnline_domain.policy.cost_model import FIRNLINE
from firnline_domain.settings.thresholds import Thresholds, resolve_thresholds

from bench.policy.hours import ALL, ROW_BYTES, STORIES, Pair, Shape, accelerated, foretold, pairs
from bench.policy.report import table_of
from bench.policy.told import Told
from bench.simulate.parameters import Reading
from tests.examples import make

COMMITTED = "rewrite_committed/native"


def pair(real: float, said: float) -> Pair:
    return Pair("firnline", "upserts", "bytes_written", real, said)


@pytest.mark.parametrize(
    ("real", "said", "ratio", "is_off"),
    [
        (100.0, 100.0, 1.0, False),
        (125.0, 100.0, 1.25, False),
        (126.0, 100.0, 1.26, True),
        (75.0, 100.0, 0.75, False),
        (74.0, 100.0, 0.74, True),
        (0.0, 0.0, None, False),
        (1.0, 0.0, None, True),
    ],
)
def test_what_is_off_by_more_than_a_quarter_is_marked(real, said, ratio, is_off):
    found = pair(real, said)
    assert found.ratio == (ratio if ratio is None else pytest.approx(ratio))
    assert found.is_off is is_off
    assert ("**off**" in table_of([found])) is is_off


def test_only_what_both_know_is_compared():
    real = {"a": {"bytes_written": 3.0, "read_s": 1.0}, ALL: {"cpu_s": 8.0}, "b": {"read_s": 1.0}}
    said = {"a": {"bytes_written": 6.0}, ALL: {"cpu_s": 4.0}}
    found = pairs("firnline", real, said)
    assert [(one.story, one.measure, one.ratio) for one in found] == [
        ("a", "bytes_written", 0.5),
        (ALL, "cpu_s", 2.0),
    ]


def test_an_hour_in_two_minutes_has_the_same_hour():
    """Whatever is a time passes thirty times as fast; what is a size or a count stays."""
    usual, fast = Thresholds(), resolve_thresholds(accelerated(30), Thresholds())
    for name in ("max_age_ms", "max_wait_ms", "cool_down_ms", "hot_max_ms", "yield_ms"):
        assert getattr(fast, name) == pytest.approx(getattr(usual, name) / 30, rel=0.01), name
    assert fast.reads_per_hour == 30 * usual.reads_per_hour
    assert fast.max_commits == 30 * usual.max_commits
    assert fast.cheap_bytes == usual.cheap_bytes
    assert fast.min_fragments == usual.min_fragments


def test_the_simulator_foretells_every_story():
    for system in ("firnline", "bin_pack_hourly"):
        said = foretold(system)
        assert set(said) == {story.name for story in STORIES} | {ALL}
        assert all(figure > 0 for figures in said.values() for figure in figures.values())


def test_the_simulator_is_told_how_large_rows_are_and_how_long_orders_take():
    usual, [append, upserts] = foretold("firnline"), [story.name for story in STORIES]
    half = foretold("bin_pack_hourly", shape=Shape(row_bytes=ROW_BYTES / 2))
    whole = foretold("bin_pack_hourly")
    ratio = half[append]["bytes_written"] / whole[append]["bytes_written"]
    assert ratio == pytest.approx(0.5, rel=0.01)
    twice = Shape(commit_bytes={append: 2 * STORIES[0].commit_bytes})
    figures = foretold("bin_pack_hourly", shape=twice)
    assert figures[append]["bytes_written"] > 1.9 * whole[append]["bytes_written"]
    assert figures[upserts] == whole[upserts]
    slow = foretold("firnline", shape=Shape(order_s=300.0))
    assert slow[upserts]["bytes_written"] < 0.9 * usual[upserts]["bytes_written"]
    small = foretold("firnline", shape=Shape(key_share=0.01, delete_bytes=1.0))
    read, written = (small[upserts][f"bytes_{what}"] for what in ("read", "written"))
    assert read < 1.2 * written  # hardly anything of keys
    assert usual[upserts]["bytes_read"] > 1.4 * usual[upserts]["bytes_written"]


def test_writers_end_with_the_hour():
    """A bin-pack at its end leaves nothing to be opened but what it wrote."""
    said = foretold("bin_pack_hourly")["append stream"]
    assert said["read_s"] < 1.05 * (said["bytes_written"] * Reading().scan_s_per_byte)


def test_what_commits_tell_is_kept_by_table_and_orders_by_their_time():
    told = Told()
    assert (told.order_s, told.slowness) == (0.0, 1.0)
    for seconds, worked in ((3, 1.0), (5, 2.0), (30, 20.0)):
        event = make(
            COMMITTED,
            bytes_read=1_000,
            key_bytes=100,
            bytes_after=700,
            ordered_at_ms=1_000,
            committed_at_ms=1_000 + seconds * 1_000,
            worked_ms=int(worked * 1_000),
            files_removed=0,
            delete_records=0,
            converted_bytes=0,
        )
        told.take(event)
    [name] = told.read
    assert (told.read[name], told.written[name], told.actions[name]) == (3_300, 2_100, 3)
    assert told.order_s == 5.0
    assert told.slowness == pytest.approx(2.0 / (FIRNLINE.fixed_s / FIRNLINE.cores), rel=0.01)


def test_workers_that_are_slow_make_prices_that_readers_pay_later():
    usual, slow = (
        foretold("firnline", shape=Shape(key_share=0.05, slowness=times)) for times in (1.0, 8.0)
    )
    name = STORIES[1].name
    assert slow[name]["bytes_written"] < usual[name]["bytes_written"]
    rates = [said[ALL]["cpu_s"] / said[name]["bytes_written"] for said in (usual, slow)]
    assert rates[1] == pytest.approx(rates[0], rel=0.5)  # a slow worker takes no more CPU
