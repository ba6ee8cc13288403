"""Chooses the snapshots of an expiry as Iceberg's `RemoveSnapshots` does; by metadata alone."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import islice

from firnline_domain.base.numbers import whole_range
from firnline_domain.base.values import MAX_AMOUNT, bound_amount
from firnline_domain.identity import MAIN
from firnline_domain.records.parts.summaries import number_in
from firnline_domain.records.results import ExpiryPreview
from firnline_domain.settings.thresholds import resolve_thresholds
from pyiceberg.table.refs import SnapshotRef, SnapshotRefType
from pyiceberg.table.snapshots import Operation, Snapshot

from firnline_iceberg.table.loaded_table import LoadedTable

MAX_REF_AGE = "history.expire.max-ref-age-ms"
_AGE = whole_range(0, MAX_AMOUNT)
_ADD_ROWS = (Operation.APPEND, Operation.OVERWRITE)
_REMOVED_FILES = ("deleted-data-files", "removed-delete-files")
_REMOVED_BYTES = "removed-files-size"


def expiring_snapshots(
    table: LoadedTable,
    older_than_ms: int,
    retain_last: int,
    now_ms: int,
    without: Collection[str] = (),
) -> list[Snapshot]:
    """Return the snapshots that would go, oldest first; `without`: refs that go before."""
    ended = {*without, *expired_ref_names(table, now_ms)}
    living = [ref for name, ref in table.metadata.refs.items() if name not in ended]
    kept, reached = set[int](), set[int]()
    for ref in living:
        oldest_ms = older_than_ms
        if ref.max_snapshot_age_ms is not None:
            oldest_ms = now_ms - ref.max_snapshot_age_ms
        kept |= {one.snapshot_id for one in _kept_snapshots(table, ref, oldest_ms, retain_last)}
        reached |= {one.snapshot_id for one in _reached_by(table, ref)}
    young = {
        snapshot.snapshot_id
        for snapshot in table.snapshots
        if snapshot.timestamp_ms >= older_than_ms
    }
    kept |= young - reached
    gone = [snapshot for snapshot in table.snapshots if snapshot.snapshot_id not in kept]
    return sorted(gone, key=lambda one: one.timestamp_ms)


def keep_for_streams(table: LoadedTable, settings: Mapping[str, str], older_than_ms: int) -> int:
    """Return the cut-off, moved back for `firnline.streaming-readers`: a reader that has read all
    stands at the newest snapshot that added rows, whatever followed it, and cannot continue unless
    all from there to the head are retained."""
    if not resolve_thresholds(settings).streaming_readers:
        return older_than_ms
    needed_ms = older_than_ms
    for one in table.ancestors(table.head_id(MAIN)):
        needed_ms = min(needed_ms, one.timestamp_ms)
        if one.summary is not None and one.summary.operation in _ADD_ROWS:
            return needed_ms
    return older_than_ms  # no reader can continue


def expired_ref_names(table: LoadedTable, now_ms: int) -> list[str]:
    """Return the refs that are older than Iceberg's own limit for them, or whose snapshot is gone:
    an expiry removes them. Never `main`."""
    return [
        name
        for name, ref in table.metadata.refs.items()
        if name != MAIN and not _ref_lives(table, ref, now_ms)
    ]


def _ref_lives(table: LoadedTable, ref: SnapshotRef, now_ms: int) -> bool:
    if not table.retains(ref.snapshot_id):
        return False
    text = table.properties.get(MAX_REF_AGE, "")
    most_ms = ref.max_ref_age_ms or _AGE.parse(text)
    age_ms = now_ms - table.snapshot(ref.snapshot_id).timestamp_ms
    return most_ms is None or age_ms <= most_ms


def _reached_by(table: LoadedTable, ref: SnapshotRef) -> Iterator[Snapshot]:
    found = table.ancestors(ref.snapshot_id)
    if ref.snapshot_ref_type is SnapshotRefType.BRANCH:
        yield from found
    else:
        yield from islice(found, 1)


def _kept_snapshots(
    table: LoadedTable, ref: SnapshotRef, older_than_ms: int, retain_last: int
) -> Iterator[Snapshot]:
    """Yield a branch's newest ones, as long as they are young or too few."""
    least = ref.min_snapshots_to_keep or max(retain_last, 1)
    for number, one in enumerate(_reached_by(table, ref)):
        if number >= least and one.timestamp_ms < older_than_ms:
            return
        yield one


def preview_expiry(table: LoadedTable, gone: Sequence[Snapshot]) -> ExpiryPreview:
    """Count these, and what their successors took out of the table: that is what no snapshot needs
    any more. By the summaries, so about; no manifest is read."""
    ids = {one.snapshot_id for one in gone}
    following = [snapshot for snapshot in table.snapshots if snapshot.parent_snapshot_id in ids]
    said = [one.summary.additional_properties for one in following if one.summary]
    files = bound_amount(sum(number_in(one, name) for one in said for name in _REMOVED_FILES))
    return ExpiryPreview(
        len(ids), files, bound_amount(sum(number_in(one, _REMOVED_BYTES) for one in said))
    )
