"""Who made a commit that maintains, as far as its summary says."""

from __future__ import annotations

from collections.abc import Mapping

from firnline_domain.records.events import SnapshotAdded
from firnline_domain.records.summaries import MAKERS, OPTIMIZE, PRODUCER, REPLACE

LONGEST = 200  # characters of a value that a person is to read


def maker_of(snapshot: SnapshotAdded) -> dict[str, str]:
    """Nothing of commits that write rows: nobody asks who made those, and they are many."""
    summary: Mapping[str, str] = snapshot.summary
    if snapshot.operation != REPLACE and summary.get(PRODUCER) != OPTIMIZE:
        return {}
    return {name: summary[name][:LONGEST] for name in MAKERS if name in summary}
