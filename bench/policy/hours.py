"""The tables of an accelerated hour, their properties, and what the simulator foretells of it.
Pure but for the simulator's own clock."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace as with_fields

import numpy as np
from firnline_domain.base.values import Value, field, replace
from firnline_domain.settings.thresholds import Thresholds

from bench.simulate.lake import VARIATION
from bench.simulate.parameters import DAY_S, HOUR_S, MB, Parameters
from bench.simulate.reading import scan_of
from bench.simulate.run import system_of
from bench.simulate.stories import Story, year_of
from bench.simulate.world import World

MINUTES = 60  # that the simulator takes for the hour
AFTER_MINUTES = 4  # in which what began within the hour ends
OFF = 0.25
ROW_BYTES = 30.0
TARGET_BYTES = 128 * MB
STORIES = (
    Story("append stream", 60.0, 1.6 * MB, 4, 0, 2),
    Story("upserts", 60.0, 0.5 * MB, 1, 24 * MB, 2, upserts=True),
)
MEASURES = ("bytes_written", "bytes_read", "cpu_s", "read_s")
ALL = "all tables"
Figures = Mapping[str, Mapping[str, float]]  # by story, by measure


class Pair(Value):
    """A measure on the real stack and in the simulator."""

    system: str
    story: str
    measure: str
    real: float
    foretold: float

    @property
    def ratio(self) -> float | None:
        """Real for foretold; None where nothing was foretold."""
        return self.real / self.foretold if self.foretold > 0 else None

    @property
    def is_off(self) -> bool:
        """By more than a quarter, whichever is the larger. To foretell nothing is right only where
        nothing happens."""
        if self.ratio is None:
            return self.real > 0
        return not 1 - OFF <= self.ratio <= 1 + OFF


def accelerated(factor: float) -> dict[str, str]:
    """Table properties with which an hour passes in 1 / `factor` of it."""
    usual = Thresholds()
    times = {
        "firnline.rewrite.max-age-ms": usual.max_age_ms,
        "firnline.rewrite.quiet-ms": usual.quiet_ms,
        "firnline.rewrite.cool-down-ms": usual.cool_down_ms,
        "firnline.rewrite.hot-ms": usual.hot_ms,
        "firnline.rewrite.hot-max-ms": usual.hot_max_ms,
        "firnline.rewrite.max-wait-ms": usual.max_wait_ms,
        "firnline.yield-ms": usual.yield_ms,
    }
    return {
        **{name: str(max(round(ms / factor), 1)) for name, ms in times.items()},
        "firnline.reads-per-hour": f"{usual.reads_per_hour * factor:g}",
        "firnline.commit.max-per-hour": str(round(usual.max_commits * factor)),
        "write.target-file-size-bytes": str(TARGET_BYTES),
    }


class Shape(Value):
    """Of the files that the hour's writers wrote, and of the stack that it was played on: what a
    simulation is told of them, not what it foretells. `order_s`: from an order to its commit, in
    the hour's time, beside the work."""

    row_bytes: float = ROW_BYTES
    key_share: float = Parameters().key_share
    delete_bytes: float = Parameters().delete_bytes  # of an equality delete
    order_s: float = 0.0
    slowness: float = 1.0
    commit_bytes: dict[str, float] = field(default_factory=dict)


USUAL = Shape()
MEAN = math.exp(VARIATION**2 / 2)  # of simulated commits, in medians; the hour's are all alike


def foretold(
    system: str, stories: Sequence[Story] = STORIES, shape: Shape = USUAL
) -> dict[str, dict[str, float]]:
    """What the simulator says of the hour, by story; CPU of all tables together too, which is all
    that can be seen of the real stack. Writers end with the hour."""
    of_size = shape.row_bytes / ROW_BYTES
    stories = [
        with_fields(
            story,
            commit_bytes=shape.commit_bytes.get(story.name, story.commit_bytes * of_size) / MEAN,
            base_bytes=story.base_bytes * of_size,
        )
        for story in stories
    ]
    p = replace(
        Parameters(),
        tables=len(stories),
        days=(MINUTES + AFTER_MINUTES) * 60.0 / DAY_S,
        warm_days=0.0,
        late_share=0.0,
        sample_s=HOUR_S,
        grain_s=10.0,
        row_bytes=shape.row_bytes,
        key_share=shape.key_share,
        delete_bytes=shape.delete_bytes,
        order_s=shape.order_s,
        slowness=shape.slowness,
        target_bytes=TARGET_BYTES,
    )
    fleet, p, _ = year_of(tuple(stories), p)
    fleet = with_fields(fleet, closes=np.full(fleet.units, MINUTES))
    world = World(p, fleet)
    world.run(system_of(system, world))
    scan, ledger = scan_of(world.lake.all, p), world.ledger.by_table
    found = {
        story.name: {
            "bytes_written": float(ledger["bytes_written"][table]),
            "bytes_read": float(ledger["bytes_read"][table]),
            "read_s": float(scan.cost_s[fleet.table == table].sum()),
        }
        for table, story in enumerate(stories)
    }
    return {**found, ALL: {"cpu_s": float(ledger["cpu_s"].sum())}}


def pairs(system: str, real: Figures, said: Figures) -> list[Pair]:
    """Of everything that is known of both."""
    return [
        Pair(system, story, measure, figures[measure], said[story][measure])
        for story, figures in real.items()
        for measure in MEASURES
        if measure in figures and measure in said.get(story, {})
    ]
