"""Estimates the share of a data file's rows that is dead, before any row is read. Pure. A deletion
vector and a position delete of one file say it by their number of records. Any other position
delete is spread over the files that it reaches. The hits of an equality delete are unknown: each of
its keys hits one row of all that it reaches, and two may hit the same."""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Mapping, Sequence
from itertools import accumulate

from firnline_domain.identity import Scope, normal_path
from firnline_domain.records.parts.dead_rows import Histogram, build_histogram
from firnline_domain.records.parts.tallies import SizeClass, size_class
from firnline_domain.records.results import DeleteKind, RewriteGroup
from firnline_iceberg.metadata.entries import DataFileEntry, DeleteFileEntry
from firnline_iceberg.scan.planning import LiveFiles, PlannedFile

DeleteKey = object


def dead_ratios(files: Sequence[PlannedFile], live: LiveFiles) -> dict[str, float]:
    """Return, by normal path, the dead ratio of the files that any delete applies to: from 0 to 1,
    and 1 only if positions name every row."""
    spread = _Spread(files, live)
    return {file.data.normal_path: spread.dead_ratio(file) for file in files if file.deletes}


def dead_rows_left(
    live: LiveFiles, scope: Scope, groups: Sequence[RewriteGroup], target_bytes: int
) -> Histogram:
    """Return the dead rows that a rewrite leaves in larger files; without groups, those that there
    are."""
    files = live.files_of_scope(scope)
    spread = _Spread(files, live)
    hit = {normal_path(f.path): g.rows_masked for g in groups if g.converts for f in g.inputs}
    gone = {normal_path(f.path) for g in groups if not g.converts for f in g.inputs}
    kept = (file for file in files if file.data.normal_path not in gone)
    left = [
        (f.data.bytes, f.data.records, spread.masked_rows(f) + hit.get(f.data.normal_path, 0))
        for f in kept
    ]
    left += [(file.bytes, file.records, 0.0) for group in groups for file in group.outputs]
    fragment = SizeClass.FRAGMENT
    return build_histogram(
        file for file in left if size_class(file[0], target_bytes) is not fragment
    )


class _Spread:
    """Records of deletes, by row that they reach."""

    def __init__(self, files: Sequence[PlannedFile], live: LiveFiles) -> None:
        own = _RowsByAge(file.data for file in files)
        applied = {delete.key: delete for file in files for delete in file.deletes}
        reach_all = any(delete.is_global for delete in applied.values()) and len(live.scopes) > 1
        everywhere = _RowsByAge(live.data) if reach_all else own
        self._per_row: Mapping[DeleteKey, float] = {
            key: delete.records
            / max((everywhere if delete.is_global else own).reached_by(delete), 1)
            for key, delete in applied.items()
            if delete.referenced_data_file is None
        }

    def masked_rows(self, file: PlannedFile) -> float:
        """Return the number of rows that are dead by position."""
        rows = file.data.records
        named = sum(
            delete.records
            if delete.referenced_data_file is not None
            else self._per_row[delete.key] * rows
            for delete in file.deletes
            if delete.kind is not DeleteKind.EQUALITY
        )
        return min(named, float(rows))

    def dead_ratio(self, file: PlannedFile) -> float:
        rows = file.data.records
        if rows <= 0:
            return 1.0
        hits = sum(
            self._per_row[delete.key]
            for delete in file.deletes
            if delete.kind is DeleteKind.EQUALITY
        )
        return round(1 - (1 - self.masked_rows(file) / rows) * math.exp(-hits), 9)


class _RowsByAge:
    """Numbers of rows up to each data sequence number."""

    def __init__(self, files: Iterable[DataFileEntry]) -> None:
        by_age = sorted((file.sequence_number, file.records) for file in files)
        self._numbers = [number for number, _ in by_age]
        self._rows = [0, *accumulate(records for _, records in by_age)]

    def reached_by(self, delete: DeleteFileEntry) -> int:
        """Return the rows of files below an equality delete's number, or up to a position
        delete's."""
        strictly = delete.kind is DeleteKind.EQUALITY
        place = (bisect_left if strictly else bisect_right)(self._numbers, delete.sequence_number)
        return self._rows[place]
