"""A ref's head as decisions want it (`firnline_domain.commits.pinned_head.Head`), and rewrites that
are planned on it as Java wants them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

from firnline_domain.commits.commit_plan import PlannedSnapshot
from firnline_domain.commits.conflicts import input_files, output_files
from firnline_domain.commits.pinned_head import Head
from firnline_domain.identity import normal_path
from firnline_domain.records.results import RewriteFinished

from firnline_iceberg.commit.head_examination import FileSelection, examine_files
from firnline_iceberg.commit.hidden_history import KnownAncestries, find_traces
from firnline_iceberg.commit.rewrite import ManifestBase, Rewrite
from firnline_iceberg.java.api import removal_json
from firnline_iceberg.metadata.entries import DeleteFileEntry, EntryStatus, FileEntry
from firnline_iceberg.metadata.manifest_reader import ManifestFile
from firnline_iceberg.scan.planning import LiveFiles
from firnline_iceberg.table.loaded_table import LoadedTable
from firnline_iceberg.table.write_format import SchemaChecksums, SchemaFields

Manifests = tuple[ManifestFile, ...]


@dataclass(frozen=True)
class PinnedHead:
    """A head, and the manifest entries behind it."""

    head: Head
    table: LoadedTable
    live: LiveFiles

    @property
    def snapshot_id(self) -> int:
        """Return the id of the head."""
        return self.head.snapshot_id

    @cached_property
    def manifest_base(self) -> ManifestBase:
        """For a commit onto this head. Raises MetadataFileGone, RetryLater."""
        metadata = self.table.metadata
        manifests = self.table.manifests_of(self.table.snapshot(self.head.snapshot_id))
        specs = sorted(spec.spec_id for spec in metadata.partition_specs)
        return ManifestBase(
            self.head.snapshot_id,
            self.head.last_sequence_number,
            {one.path: one.min_sequence_number for one in manifests},
            (*specs, metadata.default_spec_id),
        )

    def java_rewrites(
        self,
        planned: Iterable[PlannedSnapshot],
        starts: Mapping[str, int],
        notes: Mapping[str, str] | None = None,
    ) -> tuple[Rewrite, ...]:
        """Return the planned rewrites, for Java. `starts`: by task id. `notes`: for the summary of
        each snapshot."""
        return tuple(self._java_rewrite(one, starts, notes or {}) for one in planned)

    def _java_rewrite(
        self, rewrite: PlannedSnapshot, starts: Mapping[str, int], notes: Mapping[str, str]
    ) -> Rewrite:
        files = (file for part in rewrite.parts for file in part.group.outputs)
        inputs = [self.live.data_file(path) for path in sorted(rewrite.input_paths)]
        kept = [one.path for one in inputs if one is not None] if rewrite.is_conversion else []
        return Rewrite(
            rewrite.task_ids,
            rewrite.sequence_number,
            self._validated_from(rewrite, starts),
            (
                *(self._removal_json(entry) for entry in inputs if not rewrite.is_conversion),
                *(self._removal_json(delete) for delete in rewrite.removed_deletes),
            ),
            tuple(file.content_file_json for file in files),
            tuple((one.content_file_json, one.sequence_number) for one in rewrite.added_deletes),
            notes,
            tuple(kept),
        )

    def _removal_json(self, entry: object) -> str:
        assert isinstance(entry, FileEntry), "planned on another head"
        return removal_json(entry, len(self.table.spec(entry.spec_id).fields))

    def _validated_from(self, rewrite: PlannedSnapshot, starts: Mapping[str, int]) -> int:
        """Return the snapshot from which Java validates: the tasks' common start if the history
        reaches it. Else the head, which was examined itself: deletes that one of several results
        has applied would be new to another's start, and so would those that a repair carries over
        (repair-start hazard, H4), or a conversion reads."""
        (start, *others) = {starts[task] for task in rewrite.task_ids}
        examined = others or rewrite.needs_repair or rewrite.is_conversion
        usable = not examined and start in self.head.ancestors
        return start if usable else self.head.snapshot_id


def pin_head(
    table: LoadedTable,
    ref: str,
    results: Iterable[RewriteFinished],
    marked: Iterable[str] = (),
    lineages: KnownAncestries | None = None,
) -> PinnedHead:
    """Read the head as far as these results need it. `marked`: normal paths of files that earlier
    slices have converted. `lineages`: what earlier looks have found. Raises RefGone,
    MetadataFileGone, RetryLater; TaskRefused where too many deletes are about them."""
    snapshot_id = table.head(ref).snapshot_id
    known = tuple(results)
    # an output that is live already must be seen, too
    named = [file.path for result in known for file in input_files(result)]
    named += [file.path for result in known for file in output_files(result)]
    paths = frozenset((*map(normal_path, named), *marked))
    about = FileSelection(paths, frozenset(result.scope for result in known))
    live, rest = examine_files(table, snapshot_id, about)
    ancestors = list(table.ancestors(snapshot_id))
    starts = frozenset(result.start_snapshot_id for result in known)
    read = (*live.data, *live.deletes)
    head = Head(
        snapshot_id=snapshot_id,
        last_sequence_number=table.last_sequence_number,
        data={entry.normal_path: entry for entry in live.data},
        deletes=live.deletes,
        ancestors=frozenset(snapshot.snapshot_id for snapshot in ancestors),
        retained=frozenset(snapshot.snapshot_id for snapshot in table.snapshots),
        reaches_root=ancestors[-1].parent_snapshot_id is None,
        form=table.form,
        schemas=SchemaFields(table.metadata),
        schema_checksums=SchemaChecksums(table.metadata),
        repeated=live.repeated_paths,
        rest=rest,
        traced=find_traces(table, snapshot_id, starts, read, lineages),
    )
    return PinnedHead(head, table, live)


def changed_by(
    table: LoadedTable, snapshot_id: int, deletes_alone: bool = False
) -> Iterator[FileEntry]:
    """Yield the entries of the files that a snapshot added and removed; with `deletes_alone`, only
    of its delete files. Raises SnapshotGone, MetadataFileGone, RetryLater."""
    for manifest in table.manifests_of(table.snapshot(snapshot_id)):
        wanted = manifest.holds_deletes or not deletes_alone
        if wanted and manifest.added_snapshot_id == snapshot_id:
            entries = table.entries_of(manifest)
            yield from (entry for entry in entries if entry.snapshot_id == snapshot_id)


def deletes_removed_by(table: LoadedTable, snapshot_id: int) -> Iterator[DeleteFileEntry]:
    """Yield the delete files that a snapshot removed. Raises the errors of `changed_by`."""
    for entry in changed_by(table, snapshot_id, deletes_alone=True):
        if entry.status is EntryStatus.DELETED and isinstance(entry, DeleteFileEntry):
            yield entry


def manifests_since(table: LoadedTable, sequence_number: int) -> Iterator[tuple[int, Manifests]]:
    """Yield of each retained snapshot of any ref that was written after `sequence_number`, those
    manifests that were, too. Raises as above."""
    numbered = table.format_version > 1  # v1 numbers everything 0
    for snapshot in table.snapshots:
        if numbered and (snapshot.sequence_number or 0) <= sequence_number:
            continue
        yield (
            snapshot.snapshot_id,
            tuple(
                one
                for one in table.manifests_of(snapshot)
                if not numbered or one.sequence_number > sequence_number
            ),
        )
