"""Rewrites of one commit, what their manifests are written upon, and what came of the commit."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from firnline_adapters.clock import now_ms
from firnline_adapters.records.signing import keys_here
from firnline_domain.records.parts.conflict_reasons import ConflictReason
from firnline_domain.records.parts.summaries import BY_VERSION, TASK_ID, is_ours, sign_summary
from firnline_domain.records.signing import Keyring
from firnline_domain.version import VERSION
from pyiceberg.table.snapshots import Summary

from firnline_iceberg.commit.single_send import WrittenMetadata


def claimed_task_ids(summary: Summary | None) -> tuple[str, ...]:
    """Return the tasks that a snapshot's summary names, unverified."""
    text = summary.get(TASK_ID) if summary is not None else None
    return tuple(str(text).split(",")) if text else ()


def task_ids(summary: Summary | None, uuid: str, keys: Keyring | None = None) -> tuple[str, ...]:
    """Return the tasks of this deployment that a snapshot of the table serves, verified by its
    signature. `keys`: None = those of the environment."""
    if summary is None or not (claimed := claimed_task_ids(summary)):
        return ()
    keys = keys_here() if keys is None else keys
    return claimed if is_ours(summary.additional_properties, uuid, keys) else ()


def signed_here(ours: Mapping[str, str], uuid: str) -> dict[str, str]:
    """Return the summary's properties of a snapshot of Firnline, signed with the environment's
    keys. `uuid`: the table's."""
    return sign_summary(ours, uuid, keys_here(), now_ms())


def of_task(task_id: str, uuid: str) -> dict[str, str]:
    """Return the signed summary of a snapshot that serves one task alone."""
    return signed_here({TASK_ID: task_id, BY_VERSION: VERSION}, uuid)


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

    def can_serve(self, later: ManifestBase) -> bool:
        """Return True if manifests that were written upon this head are what Iceberg would write
        upon the later one.

        No manifest was removed, and the added ones are younger than this head, so that no delete
        file was dropped here by its age that would be kept there (issue 10312). Always False for v1
        tables, where all numbers are 0."""
        came = (number for path, number in later.manifests.items() if path not in self.manifests)
        return (
            self.specs == later.specs
            and self.manifests.keys() <= later.manifests.keys()
            and all(number > self.last_sequence_number for number in came)
        )


@dataclass(frozen=True)
class Committed:
    """All rewrites are in the table."""

    written: WrittenMetadata | None = None


@dataclass(frozen=True)
class HeadMoved:
    """The head is not, or was not any more, the pinned one. Nothing was committed, unless a copy of
    the request was applied before the one that this is the answer to (`written`, if one was sent):
    the table can tell."""

    detail: str
    written: WrittenMetadata | None = None


@dataclass(frozen=True)
class CommitUnknown:
    """Perhaps committed, perhaps not, perhaps later: only the table can tell. Till then what was
    written for the `written` is needed."""

    detail: str
    written: WrittenMetadata | None = None


@dataclass(frozen=True)
class CommitRejected:
    """The same would be refused again. Nothing was committed, as far as with `HeadMoved`."""

    reason: ConflictReason
    detail: str
    written: WrittenMetadata | None = None


Outcome = Committed | HeadMoved | CommitUnknown | CommitRejected
