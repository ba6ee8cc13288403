"""One ground for all schedules of a session."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from firnline_schedules.ground import Ground
from firnline_schedules.lab import Lab
from firnline_schedules.table import KINDS


@pytest.fixture(scope="session")
def labs(iceberg_jar: Path) -> Iterator[dict[str, Lab]]:
    """By the name of their kind of table; each has gone through the common beginning."""
    ground = Ground(iceberg_jar)
    yield {name: Lab(ground, kind) for name, kind in KINDS.items()}
    ground.close()
