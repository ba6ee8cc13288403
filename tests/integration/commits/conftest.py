"""One JVM for all commit tests."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from firnline_iceberg.jvm import IcebergJvm


@pytest.fixture(scope="session")
def iceberg(iceberg_jar: Path) -> Iterator[IcebergJvm]:
    with IcebergJvm(iceberg_jar) as running:
        yield running
