"""Rewrites of one commit, what their manifests are written upon, and what came of the commit."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from firnline_domain.records.conflict_reasons import ConflictReason
from firnline_domain.records.summaries import TASK_ID
from pyiceberg.table.snapshots import Summary

from firnline_iceberg.single_send import WrittenMetadata


def task_ids(summary: Summary | None) -> tuple[str, ...]:
    """Firnline's tasks that a snapshot serves."""
    text = summary.get(TASK_ID) if summary is not None else None
    return tuple(text.split(",")) if text else ()


@dataclass(frozen=True)
class Rewrite:
    """One snapshot to make. Files are `ContentFileParser` JSON; `removed` may hold data files
    and delete files. `start_snapshot_id`: Java, too, looks for new deletes since then.
    `added_deletes`: with a data sequence number, or None for the snapshot's own. `notes`: more of
    the snapshot's summary. `kept`: data files that delete files alone are exchanged for; then it is
    a `RowDelta`, which other engines' rewrites look at, as they do not at a rewrite
    (convert-as-replace hazard, H3)."""

    task_ids: tuple[str, ...]
    data_sequence_number: int
    start_snapshot_id: int
    removed: tuple[str, ...]
    added: tuple[str, ...]
    added_deletes: tuple[tuple[str, int | None], ...] = ()
    notes: Mapping[str, str] = field(default_factory=dict)
    kept: tuple[str, ...] = ()
    drops: bool = False  # rows go with their files: readers of changes see a delete, no rewrite
    appends: bool = False  # rows come with `added`, which may be none: then only the head moves
    properties: Mapping[str, str] = field(default_factory=dict)  # of the table, set with it


@dataclass(frozen=True)
class ManifestBase:
    """A head. `manifests`: path -> lowest data sequence number in it, as the manifest list has it.
    `specs`: ids of the table's partition specs, the default one last."""

    snapshot_id: int
    last_sequence_number: int  # the table's
    manifests: Mapping[str, int]
    specs: tuple[int, ...]

    def serves(self, later: ManifestBase) -> bool:
        """Whether manifests that were written upon this head are what Iceberg would write upon
        the later one.

        Nothing was taken out: each manifest is still there. And what has come is younger than
        this head, so that no delete file was dropped here by its age that would be kept there
        (issue 10312). Of v1 tables, where all is 0, it is never said.
        """
        came = (number for path, number in later.manifests.items() if path not in self.manifests)
        return (
            self.specs == later.specs
            and self.manifests.keys() <= later.manifests.keys()
            and all(number > self.last_sequence_number for number in came)
        )


@dataclass(frozen=True)
class Landed:
    """All rewrites are in the table."""

    written: WrittenMetadata | None = None


@dataclass(frozen=True)
class Moved:
    """The head is not, or was not any more, the pinned one. Nothing was committed, unless a copy of
    the request was applied before the one that this is the answer to (`written`, if one was sent):
    the table can tell."""

    detail: str
    written: WrittenMetadata | None = None


@dataclass(frozen=True)
class Unknown:
    """Perhaps committed, perhaps not, perhaps later: only the table can tell. Till then what was
    written for the `written` is needed."""

    detail: str
    written: WrittenMetadata | None = None


@dataclass(frozen=True)
class Refused:
    """The same would be refused again. Nothing was committed, as far as with `Moved`."""

    reason: ConflictReason
    detail: str
    written: WrittenMetadata | None = None


Outcome = Landed | Moved | Unknown | Refused
