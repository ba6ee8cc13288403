"""The years of single tables: short ones, with everybody's stories in one fleet."""

from __future__ import annotations

import numpy as np
import pytest
from firnline_domain.base.values import replace

from bench.simulate.parameters import DAY_S, GB, MB
from bench.simulate.stories import STORIES, Story, year_of
from bench.simulate.year import SYSTEMS, YEAR, table_of, year_by
from bench.simulate.year_plot import svg
from tests.kit.long_run import mark_long

SHORT = replace(YEAR, days=3.0)
FEW = tuple(story for story in STORIES if story.parts <= 100)


@pytest.mark.parametrize("name", mark_long(SYSTEMS, but=["firnline"]))
def test_every_story_gets_what_its_writers_wrote(name: str) -> None:
    found = year_by(name, SHORT, FEW)
    assert list(found) == [story.name for story in FEW]
    for story in FEW:
        per_day = story.commit_bytes * DAY_S / story.period_s
        figures = found[story.name]
        assert figures["ingested_gb"] == pytest.approx(3 * per_day / GB, rel=0.35), story.name
        assert figures["read_amplification"] >= 0.99
        assert figures["worst_hour"] >= figures["read_amplification"] * 0.99


def test_a_commit_of_a_tick_has_the_files_and_deletes_of_all_its_commits() -> None:
    story = Story("one", 60.0, 1.5 * MB, 2, 1 * GB, 1.0, upserts=True)
    fleet, _, _ = year_of((story,), replace(SHORT, tick_s=600.0, tables=1))
    assert fleet.files.tolist() == [20]
    assert fleet.commits_in_tick.tolist() == [10]
    assert fleet.commit_bytes.tolist() == [15 * MB]
    assert fleet.period.tolist() == [1]


def test_a_commit_touches_a_share_of_many_partitions() -> None:
    story = Story("many", DAY_S, 100 * MB, 1, 1 * GB, 1.0, 1_000, 0.1)
    fleet, p, _ = year_of((story,), replace(SHORT, tick_s=600.0, tables=1))
    ticks = DAY_S / p.tick_s
    assert fleet.period[0] == 10 * ticks
    assert fleet.commit_bytes[0] == 1 * MB
    due = np.bincount(fleet.phase, minlength=int(10 * ticks))[: int(ticks)].sum()
    assert due == pytest.approx(100, abs=1)


def test_global_deletes_reach_every_partition() -> None:
    stories = (Story("all", DAY_S / 2, 16 * MB, 1, 16 * GB, 2, 16, upserts=True, whole=True),)
    whole = year_by("bin_pack_hourly", SHORT, stories)["all"]["read_amplification"]
    own = year_by("bin_pack_hourly", SHORT, (replace_story(stories[0], whole=False),))
    assert whole > 5 * (own["all"]["read_amplification"] - 1) + 1


def replace_story(story: Story, **values: object) -> Story:
    return Story(**{**story.__dict__, **values})


def test_a_neglected_table_is_put_in_order() -> None:
    story = next(one for one in STORIES if one.base_deletes)
    night = replace(SHORT, days=0.2, sample_s=3_600.0)  # its first hour is before the script
    idle = year_by("bin_pack_nightly", night, (story,))[story.name]
    found = year_by("firnline", SHORT, (story,))[story.name]
    assert idle["worst_hour"] > 10
    assert found["read_amplification"] < 1.5
    assert found["written_gb"] > 90


def test_what_is_printed_and_drawn() -> None:
    found = {name: year_by(name, SHORT, FEW[:2]) for name in ("firnline", "amoro")}
    lines = table_of(found).splitlines()
    assert len(lines) == 2 + 2 * 2
    assert lines[2].startswith("| tiny | firnline | ")
    drawn = svg(found)
    assert drawn.count("<circle") == 2 + 2 * 2 * 2
    assert "daily batch by day" in drawn
