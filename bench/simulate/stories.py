"""Single tables whose year is told: one fleet, so that a system's year is one run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from bench.simulate.fleet import NEVER, Fleet, Floats, Ints
from bench.simulate.parameters import DAY_S, GB, HOUR_S, MB, Parameters

MINUTE_S = 60.0


@dataclass(frozen=True)
class Story:
    """A table. `commit_bytes` of a commit, all partitions that it touches together."""

    name: str
    period_s: float
    commit_bytes: float
    files: int  # of a commit in a partition
    base_bytes: float
    reads_per_hour: float  # of each partition; of one by day, while it is written
    parts: int = 1  # partitions
    touched: float = 1.0  # share of them that a commit touches
    upserts: bool = False
    merges: bool = False
    vectors: bool = False
    by_day: bool = False
    whole: bool = False  # its equality deletes reach all partitions
    recent_s: float = 0.0
    base_file_bytes: float = 0.0  # 0 = of the target size
    base_deletes: int = 0  # equality-delete files that nobody has applied


STORIES = (
    Story("tiny", HOUR_S, 50_000, 1, 20 * MB, 1, upserts=True),
    Story("daily batch by day", DAY_S, 204 * MB, 12, 0, 1, by_day=True),
    Story("append stream by day", MINUTE_S, 1.6 * MB, 4, 0, 30, by_day=True),
    Story("upserts, 1 GB", MINUTE_S, 1.5 * MB, 1, 1 * GB, 6, upserts=True),
    Story("upserts, 100 GB", MINUTE_S, 1.5 * MB, 1, 100 * GB, 6, upserts=True),
    Story("upserts, by day", MINUTE_S, 1.5 * MB, 1, 0, 6, upserts=True, by_day=True),
    Story("upserts, 100 GB in 16 buckets", MINUTE_S, 1.5 * MB, 1, 100 * GB, 6, 16, upserts=True),
    Story("upserts, 1 TB", MINUTE_S, 1.5 * MB, 1, 1024 * GB, 6, upserts=True),
    Story("upserts of the last hours, 1 TB", MINUTE_S, 1.5 * MB, 1, 1024 * GB, 6, upserts=True,
          recent_s=6 * HOUR_S),
    Story("upserts, 1 TB in 16 buckets", MINUTE_S, 1.5 * MB, 1, 1024 * GB, 6, 16, upserts=True),
    Story("cold partitions, late upserts", DAY_S, 100 * 12_000, 1, 3000 * GB, 0.1, 100,
          upserts=True),
    Story("MERGE every hour, 50 GB", HOUR_S, 100 * MB, 2, 50 * GB, 6, merges=True, vectors=True),
    Story("10,000 partitions", DAY_S, 200 * MB, 1, 1000 * GB, 0.05, 10_000, 0.02, upserts=True),
    Story("global equality deletes", HOUR_S, 16 * MB, 1, 16 * GB, 2, 16, upserts=True, whole=True),
    Story("a neglected table is adopted", DAY_S, 100 * MB, 2, 100 * GB, 2, 20,
          base_file_bytes=2.0 * MB, base_deletes=100),
)  # fmt: skip


def year_of(stories: tuple[Story, ...], p: Parameters) -> tuple[Fleet, Parameters, Ints]:
    """Their fleet, its parameters, and the deletes that each unit has before the first tick.
    Commits that fall into one tick come as one, with as many files and deletes."""
    p_days = int(np.ceil(p.end_s / DAY_S))
    columns: dict[str, list[Any]] = {}
    for table, story in enumerate(stories):
        units = p_days if story.by_day else story.parts
        many = max(p.tick_s / story.period_s, 1.0)
        period = max(story.period_s / p.tick_s / story.touched, 1.0)
        in_day = DAY_S / p.tick_s
        opens = np.arange(units) * in_day if story.by_day else np.full(units, -float(NEVER))
        written = 1 if story.by_day else max(units * story.touched, 1.0)
        values = {
            "table": float(table),
            "commit_bytes": story.commit_bytes * many / written,
            "files": story.files * many,
            "upsert": float(story.upserts),
            "merge": float(story.merges),
            "recent_s": story.recent_s,
            "vectors": float(story.vectors),
            "base_bytes": 0.0 if story.by_day else story.base_bytes / units,
            "reads_per_s": story.reads_per_hour / HOUR_S,
            "period": period,
            "commits_in_tick": many,
            "base_file_bytes": story.base_file_bytes or float(p.target_bytes),
            "whole": float(story.whole),
            "base_deletes": float(story.base_deletes),
        }
        for name, value in values.items():
            columns.setdefault(name, []).append(np.full(units, value))
        columns.setdefault("opens", []).append(opens)
        columns.setdefault("closes", []).append(
            opens + in_day if story.by_day else np.full(units, float(NEVER))
        )
        place, ticks = np.arange(units), max(int(period), 1)
        phase = place % ticks if units >= ticks else place * ticks // units
        columns.setdefault("phase", []).append(phase)
    found = {name: np.concatenate(parts) for name, parts in columns.items()}
    zeros = np.zeros(len(found["table"]), dtype=np.int64)
    fleet = Fleet(
        table=_whole(found["table"]),
        kind=zeros,
        commit_bytes=found["commit_bytes"],
        files=_whole(found["files"]),
        upsert=found["upsert"] > 0,
        merge=found["merge"] > 0,
        recent_s=found["recent_s"],
        vectors=found["vectors"] > 0,
        base_bytes=found["base_bytes"],
        reads_per_s=found["reads_per_s"],
        period=_whole(found["period"]),
        phase=_whole(found["phase"]),
        burst=zeros,
        cycle=zeros,
        opens=_whole(found["opens"]),
        closes=_whole(found["closes"]),
        tables=len(stories),
        row_bytes=p.row_bytes,
        commits_in_tick=found["commits_in_tick"],
        snapshots_in_tick=np.array([max(p.tick_s / story.period_s, 1.0) for story in stories]),
        base_file_bytes=found["base_file_bytes"],
        whole=found["whole"] > 0,
    )
    return fleet, p, found["base_deletes"].astype(np.int64)


def _whole(values: Floats) -> Ints:
    return values.astype(np.int64)
