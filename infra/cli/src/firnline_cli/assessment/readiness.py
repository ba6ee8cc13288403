"""Checks what a table needs before the next format versions: pure functions of what was read of it.

Version 3 is adopted. Version 4 is under development: what is said of it is what its draft said at
`V4_AS_OF`, and may change."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from firnline_domain.base.values import Value

from firnline_cli.assessment.facts import AssessedFacts

V4_AS_OF = "2026-11"  # apache/iceberg#15630, #14234, #17783, #16025
MANY_MANIFESTS = 100  # as many as Iceberg's writers let lie unmerged
BUSY_COMMITS = 24.0 * 6  # a day: one in ten minutes


class Point(Value):
    """A condition of readiness. `code`: stable, for programs. `needed`: something has to change
    first; else it is a note."""

    code: str
    text: str
    needed: bool = False


class Readiness(Value):
    """The readiness of one table for one format version. `as_of`: '' = the version is adopted."""

    version: int
    points: tuple[Point, ...]
    as_of: str = ""

    @property
    def is_ready(self) -> bool:
        """Return whether nothing that was examined has to change first."""
        return not any(point.needed for point in self.points)


def readiness_of(facts: AssessedFacts) -> tuple[Readiness, ...]:
    """Return the readiness for the versions above the table's own. If its manifests were not read,
    by its summary only."""
    found = []
    if facts.format_version < 3:
        found.append(Readiness(3, tuple(_points_of_v3(facts))))
    if facts.format_version < 4:
        found.append(Readiness(4, tuple(_points_of_v4(facts)), V4_AS_OF))
    return tuple(found)


def _points_of_v3(facts: AssessedFacts) -> Iterator[Point]:
    """Yield what to know or to do before a table is upgraded to format v3."""
    if facts.format_version < 2:
        yield Point("format_version_1", "a v1 table becomes v2 first", needed=True)
    if facts.unready_writers:
        text = f"{', '.join(facts.unready_writers)} wrote it this week, not known to write v3"
        yield Point("writers", text, needed=True)
    if (files := facts.deletes.position_files + facts.deletes.equality_files) > 0:
        yield Point("v2_deletes", f"{files:,} delete files are to become deletion vectors")
    yield Point("readers", "who reads it stands in no metadata: each engine has to know v3")


def _points_of_v4(facts: AssessedFacts) -> Iterator[Point]:
    """Yield what to know or to do before a table is upgraded to format v4, by the drafts of its
    specification."""
    deletes = facts.deletes
    if facts.format_version < 3:
        yield Point("format_version", f"a v{facts.format_version} table becomes v3 first", True)
    if deletes.equality_files:
        pace = facts.pace.equality_deletes
        coming = f", {pace:,.0f} more a day" if pace >= 1 else ""
        yield Point(
            "equality_deletes",
            f"{deletes.equality_files:,} equality-delete files{coming}: v4 writers may add none "
            "(draft, #17783); those that are there stay valid",
            needed=pace > 0,
        )
    if deletes.position_files:
        text = f"{deletes.position_files:,} position-delete files: vectors belong to data files"
        yield Point("position_deletes", f"{text} (draft, #16025)")
    if facts.outside_files:
        yield Point(
            "outside_files",
            f"{facts.outside_files:,} files outside of its location keep absolute paths, and stay "
            "behind when it is moved (draft, #15630)",
        )
    if facts.schemeless_files:
        text = f"{facts.schemeless_files:,} paths without a scheme would be taken for relative ones"
        yield Point("paths_without_scheme", f"{text} (draft, #15630)", needed=True)
    if facts.manifests >= MANY_MANIFESTS or facts.pace.commits >= BUSY_COMMITS:
        yield Point(
            "metadata_tree",
            f"{facts.manifests:,} manifests, {facts.pace.commits:,.0f} commits a day: one file a "
            "commit instead of three would spare it most (draft, #16025)",
        )
    yield Point("column_sizes", "bounds become typed, sizes of columns go (draft, #14234)")


def ready_counts(readiness: Iterable[tuple[Readiness, ...]]) -> dict[str, dict[str, int]]:
    """Return for a lake, by version: the tables that are ready, that are not, and these by what
    they need."""
    counts: dict[str, dict[str, int]] = {}
    for of_table in readiness:
        for one in of_table:
            into = counts.setdefault(f"v{one.version}", {"ready": 0, "not_ready": 0})
            into["ready" if one.is_ready else "not_ready"] += 1
            for point in one.points:
                if point.needed:
                    into[point.code] = into.get(point.code, 0) + 1
    return counts


def lake_words(counts: dict[str, dict[str, int]]) -> Iterator[str]:
    """Yield the readiness of a lake as text, a line for each version."""
    for name, count in sorted(counts.items()):
        which = f" (a draft, as of {V4_AS_OF}, not maintained)" if name == "v4" else ""
        needs = ", ".join(
            f"{code.replace('_', ' ')} {number:,}"
            for code, number in count.items()
            if code not in ("ready", "not_ready")
        )
        said = f"{count['ready']:,} tables could become {name}{which}, {count['not_ready']:,} not"
        yield f"{said}: {needs}." if needs else f"{said}."


def table_words(one: Readiness) -> str:
    """Return the text for one table: first what it needs, then what is worth knowing."""
    which = f"v{one.version}" + (f", a draft as of {one.as_of}" if one.as_of else "")
    points = sorted(one.points, key=lambda point: not point.needed)
    said = "; ".join(("first: " if one.needed else "") + one.text for one in points)
    return f"{which}: {'ready' if one.is_ready else 'not ready'}; {said}"
