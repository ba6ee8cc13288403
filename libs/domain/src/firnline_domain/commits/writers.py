"""Identify the writer of a snapshot by its summary, and whether it is known to write v3 tables.

Iceberg's Java library puts its own version into every summary, and mostly the engine's name. What
each version can do is from release notes and source (docs/actions.md#format-version-3)."""

from __future__ import annotations

import re
from collections.abc import Mapping

from firnline_domain.base.values import Value

LIBRARY, ENGINE, ENGINE_VERSION = "iceberg-version", "engine-name", "engine-version"
_RELEASE = re.compile(r"Apache Iceberg (\d{1,4})\.(\d{1,4})\.")
SINCE = (1, 10)  # Java library: row ids in every commit, vectors from Spark
SINCE_FLINK = (1, 11)  # its sink wrote position-delete files until then, which v3 forbids


class Writer(Value):
    """`engine`: as it names itself, '' = it does not. `library`: release of Iceberg's Java library;
    None = it is another one, or a build without a number."""

    engine: str
    library: tuple[int, int] | None

    @property
    def label(self) -> str:
        """Return the writer's name to show."""
        if self.library is None:
            return self.engine or "a writer that does not say what it is"
        return f"{self.engine or 'Iceberg Java'} with Iceberg {self.library[0]}.{self.library[1]}"

    @property
    def writes_v3(self) -> bool:
        """Return True if the writer's Iceberg version is known, and writes format v3."""
        least = SINCE_FLINK if self.engine.startswith("flink") else SINCE
        return self.library is not None and self.library >= least


def writer_of(summary: Mapping[str, str]) -> Writer:
    """Identify the writer by any summary."""
    found = _RELEASE.match(summary.get(LIBRARY) or "")
    library = (int(found[1]), int(found[2])) if found else None
    engine = summary.get(ENGINE) or _engine_name(summary)
    version = summary.get(ENGINE_VERSION) or ""
    return Writer(f"{engine} {version}".strip().lower()[:80], library)


def _engine_name(summary: Mapping[str, str]) -> str:
    for key, engine in (("flink.job-id", "flink"), ("trino_query_id", "trino")):
        if key in summary:
            return engine
    return ""
