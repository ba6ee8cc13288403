"""The demo measures after Firnline has done what there is to do, however long a restart takes."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from firnline_demo import run

HEADS = {"demo.clicks": 7, "demo.accounts": 8}


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Time that passes in sleep alone."""
    made = SimpleNamespace(now_s=0.0)

    def sleep(seconds: float) -> None:
        made.now_s += seconds

    monkeypatch.setattr(run, "time", SimpleNamespace(sleep=sleep, monotonic=lambda: made.now_s))
    monkeypatch.setattr(run, "head_snapshots", lambda demo: HEADS)
    return made


@pytest.mark.parametrize(
    ("known_s", "ended_s", "said"),
    [(0.0, 8.5, "quiet"), (50.0, 58.5, "quiet"), (500.0, 120.0, "not quiet after 120 s")],
)
def test_it_is_not_quiet_before_the_planner_knows_every_head(
    clock: Any, known_s: float, ended_s: float, said: str
) -> None:
    class Feed:
        open: frozenset[str] = frozenset()

        @property
        def planned_heads(self) -> dict[str, int]:
            return HEADS if clock.now_s >= known_s else {**HEADS, "demo.accounts": 1}

    lines: list[str] = []
    demo: Any = SimpleNamespace(print_line=lines.append)
    feed: Any = Feed()
    run.wait_until_settled(demo, feed)
    assert (clock.now_s, lines) == (pytest.approx(ended_s, abs=0.6), [said])
