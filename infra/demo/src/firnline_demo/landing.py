"""Lands a writer's commits exactly once: it tries again, and reads the table's history if an
outcome is unknown.

Every commit carries a marker as a snapshot property, as a careful writer's would (Flink's
checkpoint id, Kafka Connect's commit id). A server that was killed in the middle of a commit leaves
the outcome unknown; the marker in the table's history tells it."""

from __future__ import annotations

import time
from collections.abc import Callable

from pyiceberg.catalog.rest import RestCatalog

from firnline_demo.model import TableModel

MARKER = "demo.commit"  # snapshot property
TRIES = 40  # with the pause: a service has 40 s to come back
PAUSE_S = 1.0


def commit_once(
    model: TableModel,
    action: Callable[[str], object],
    landed: Callable[[str], bool],
    sleep: Callable[[float], None] = time.sleep,
) -> None:
    """Run `action` with this commit's marker until it has landed exactly once.

    Raises the last error after TRIES tries.
    """
    marker = f"{model.name}-{model.commits}"
    for left in range(TRIES - 1, -1, -1):
        try:
            if landed(marker):
                return
            action(marker)
            return
        except Exception:
            if not left:
                raise
            model.retries += 1
            sleep(PAUSE_S)


def find_marker(catalog: RestCatalog, table: str) -> Callable[[str], bool]:
    """Return a function that returns whether a snapshot of the table carries a marker."""

    def has_landed(marker: str) -> bool:
        snapshots = catalog.load_table(table).metadata.snapshots
        return any(one.summary is not None and one.summary[MARKER] == marker for one in snapshots)

    return has_landed
