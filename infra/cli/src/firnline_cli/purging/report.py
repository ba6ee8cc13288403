"""The report of rows that must be removed from the storage, as found now and at earlier looks."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from shlex import quote

from firnline_domain.errors import TaskRefused
from firnline_domain.identity import MAIN, TableName
from firnline_domain.records.parts.archive_marks import ROUND
from firnline_iceberg.removal.deleted_row_search import (
    Holder,
    HolderKind,
    find_holders,
    wanted_rows,
)
from firnline_iceberg.table.loaded_table import LoadedTable

from firnline_cli.shared.formats import count_of

SHOWN = 20  # files, of a text


class UnusableReport(Exception):
    """The file is no report, or of other rows."""


@dataclass(frozen=True)
class SeenFile:
    """A file that held such rows at some look. `gone_ms`: the first look at which it was not on the
    storage any more."""

    rows: int | None
    seen_ms: int  # last
    gone_ms: int | None = None


@dataclass(frozen=True)
class Archived:
    """The table's archive, another table to which its old partitions have moved. `files` of it may
    hold such rows; None: that cannot be told, for the `reason`."""

    table: str
    files: int | None
    reason: str = ""

    def archive_step(self, where: str) -> str:
        """Return what has to be done; '' if it contains none."""
        if self.files == 0:
            return ""
        if self.reason:
            return f"the archive {self.table}: {self.reason}"
        what = f"{count_of(self.files or 0, 'file')} may have such rows"
        return (
            f"the archive {self.table}: {what}; firnline purge {self.table} --where {quote(where)}"
        )


@dataclass(frozen=True)
class PurgeLook:
    """One look. `find_holders`: files that the table retains; `left_paths`: those of earlier looks
    that it does not retain, and that are on the storage all the same."""

    table: str
    table_key: str
    where: str
    looked_ms: int
    holders: tuple[Holder, ...]
    known: Mapping[str, SeenFile]
    archived: Archived | None = None

    @property
    def left_paths(self) -> list[str]:
        retained = {one.path for one in self.holders}
        return [
            path for path, one in self.known.items() if not one.gone_ms and path not in retained
        ]

    @property
    def is_proved(self) -> bool:
        """Return whether there is no file that may hold such a row, neither in the table nor in the
        archive."""
        archive_holds = self.archived is not None and self.archived.files != 0
        return not self.holders and not self.left_paths and not archive_holds

    @property
    def partitions_to_compact(self) -> list[str]:
        """Return the partitions to compact: their files have such rows, and deletes that may be of
        these."""
        live = (one for one in self._data_and_delete_files if MAIN in one.refs and not one.visible)
        return sorted({one.partition for one in live if one.kind is HolderKind.DATA})

    def next_steps(self) -> Iterator[str]:
        """Yield what has to be done, in order."""
        if visible := [one for one in self.holders if one.visible and one.kind is HolderKind.DATA]:
            yield (
                f"delete: {count_of(len(visible), 'file')} on main have such rows, and no delete "
                f"applies to them; DELETE FROM {self.table} WHERE {self.where}"
            )
        for partition in self.partitions_to_compact:
            yield f"compact: partition {partition}, whose deletes only hide the rows"
        refs = {ref for one in self._data_and_delete_files for ref in one.refs if ref != MAIN}
        for ref in sorted(refs):
            yield f"drop the tag or branch {ref}, or delete and compact there; --yes does not"
        if (
            any(MAIN not in one.refs or one.snapshots > 1 for one in self._data_and_delete_files)
            or self.partitions_to_compact
        ):
            yield "expire: older snapshots still have such files (or will, after a compaction)"
        yield from self._other_steps()
        for path in self.left_paths:
            yield f"{path} is on the storage, and no snapshot has it: remove_orphans, or by hand"
        if self.archived and (step := self.archived.archive_step(self.where)):
            yield step

    @property
    def _data_and_delete_files(self) -> list[Holder]:
        """Return the data and delete files that snapshots have."""
        return [one for one in self.holders if one.kind in (HolderKind.DATA, HolderKind.DELETE)]

    def _other_steps(self) -> Iterator[str]:
        of_kind = Counter(one.kind for one in self.holders)
        if deletes := [
            one
            for one in self._data_and_delete_files
            if one.kind is HolderKind.DELETE and MAIN in one.refs
        ]:
            yield (
                f"full: {count_of(len(deletes), 'delete file')} on main may hold such rows; "
                f"firnline run {self.table} full, then expire"
            )
        if (count := of_kind[HolderKind.MANIFEST]) and not self._data_and_delete_files:
            yield (
                f"rewrite_manifests, then expire: {count_of(count, 'manifest')} with such a value "
                "as a bound or a partition; a table of one manifest needs another commit first"
            )
        if count := of_kind[HolderKind.QUARANTINED]:
            yield (
                f"remove_orphans: {count_of(count, 'file')} in firnline-quarantine/ may have such "
                "rows; they are removed when firnline.orphans.quarantine-ms is over"
            )

    def as_json(self) -> str:
        body = {
            **{name: getattr(self, name) for name in ("table", "table_key", "where", "looked_ms")},
            "proved": self.is_proved,
            "steps": list(self.next_steps()),
            "archive": self.archived and asdict(self.archived),
            "holders": [asdict(one) for one in self.holders],
            "files": {path: asdict(one) for path, one in sorted(self.known.items())},
        }
        return json.dumps(body, indent=1)


NOTHING: Mapping[str, SeenFile] = {}


def read_earlier(path: Path | None, table: TableName, where: str) -> Mapping[str, SeenFile]:
    """Return the files of the report that exists at `path`. Raises UnusableReport."""
    if path is None or not path.exists():
        return NOTHING
    try:
        body = json.loads(path.read_text())
        known = {name: SeenFile(**one) for name, one in body["files"].items()}
        of = (body["table_key"], body["where"])
    except (ValueError, KeyError, TypeError, AttributeError, OSError) as error:
        raise UnusableReport(f"{path} is no report of firnline purge: {error}") from error
    if of != (table.key, where):
        raise UnusableReport(f"{path} is about {body.get('table')}, {of[1]}: choose another file")
    return known


def look_for_rows(
    table: LoadedTable,
    archive: LoadedTable | None,
    where: str,
    before: Mapping[str, SeenFile],
    now_ms: int,
) -> PurgeLook:
    """Look for the rows. Raises TaskRefused, MetadataFileGone, RetryLater, OSError."""
    held = find_holders(table, wanted_rows(table, where))
    known = dict(before)
    for path, one in before.items():
        is_there = one.gone_ms is None and table.io.new_input(path).exists()
        if is_there:
            known[path] = replace(one, seen_ms=now_ms)
        elif one.gone_ms is None:
            known[path] = replace(one, gone_ms=now_ms)
    known |= {one.path: SeenFile(one.rows, now_ms) for one in held}
    name = table.identity
    archived = _without_archive(table) if archive is None else _look_in_archive(archive, where)
    return PurgeLook(name.dotted_name, name.key, where, now_ms, tuple(held), known, archived)


def _without_archive(table: LoadedTable) -> Archived | None:
    """Report rows that were moved to an archive which is not found, else None: it, or the table,
    has another name by now, or a property was changed."""
    if not (name := table.properties.get(ROUND)):
        return None
    text = (
        f"{ROUND}={name} of the table says that rows were archived, and no archive of it is found. "
        f"Unset that property once the archive is gone"
    )
    return Archived(f"of {table.identity.dotted_name}", None, text)


def _look_in_archive(archive: LoadedTable, where: str) -> Archived:
    name = archive.identity.dotted_name
    try:
        return Archived(name, len(find_holders(archive, wanted_rows(archive, where))))
    except TaskRefused as error:  # a column that it does not have yet
        return Archived(name, None, str(error))


def _describe_holder(one: Holder) -> str:
    """Describe in one line a file that holds wanted rows, and the refs and snapshots that keep
    it."""
    rows = f"perhaps rows ({one.why})"
    if one.kind is HolderKind.MANIFEST:
        rows = "such a value"
    elif one.rows is not None:
        rows = count_of(one.rows, "row")
    kept = [*one.refs, count_of(one.snapshots, "snapshot")] if one.snapshots else ["nothing"]
    return f"  {one.kind} with {rows}, kept by {', '.join(kept)}: {one.path}"


def text_of(found: PurgeLook) -> str:
    """Return the report as text."""
    lines = [f"{found.table}: rows with {found.where}"]
    lines += [_describe_holder(one) for one in found.holders[:SHOWN]]
    if more := len(found.holders) - SHOWN:
        lines += [f"  and {more:,} more files"] if more > 0 else []
    steps = [f"  {number}. {step}" for number, step in enumerate(found.next_steps(), 1)]
    if steps:
        return "\n".join([*lines, "not off the storage yet:", *steps])
    gone = [one.gone_ms for one in found.known.values() if one.gone_ms is not None]
    and_archive = f", or its archive {found.archived.table}," if found.archived else ""
    lines.append(f"proved: no file that the table{and_archive} retains holds such a row.")
    if gone:
        last = f"{datetime.fromtimestamp(max(gone) / 1000, UTC):%Y-%m-%d %H:%M:%SZ}"
        lines.append(f"Of {count_of(len(gone), 'file')} that did, the last was gone at {last}.")
    return "\n".join(lines)
