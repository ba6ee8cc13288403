"""May a result be committed onto a pinned head? Decided from the state there (H8).

History alone cannot say it: starts expire, and some catalogs keep a single snapshot.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass

from firnline_domain.events import ConflictReason
from firnline_domain.identity import normal_path
from firnline_domain.live import Head, LiveDelete, reaches
from firnline_domain.results import DeleteKind, InputFile, OutputFile, RewriteFinished

LASTING = frozenset(
    {
        ConflictReason.INPUTS_GONE,
        ConflictReason.APPLIED_DELETE_GONE,
        ConflictReason.NEW_POSITION_DELETES,
        ConflictReason.NEW_DELETION_VECTORS,
        ConflictReason.OLD_EQUALITY_DELETE,
        ConflictReason.SPEC_CHANGED,
        ConflictReason.PROOF_FAILED,
    }
)
"""Reasons that no later head takes back: another committer comes to the same answer, so the
outputs may go. A lost pin or the 10312 hazard may pass, and then somebody else commits them."""


@dataclass(frozen=True)
class Conflict:
    """Why a result is refused."""

    reason: ConflictReason
    detail: str


def examine(result: RewriteFinished, head: Head) -> Conflict | None:
    """The first reason against committing `result` onto `head`; None = it may be committed.

    The hazard of Iceberg issue 10312 depends on all results of a commit: see `swaps`.
    """
    return next((found for check in CHECKS if (found := check(result, head))), None)


def proof(result: RewriteFinished, head: Head) -> Conflict | None:
    """Rows add up in every group, and the stamp lies between the inputs' and the head's number.

    An input above the stamp would come under deletes older than itself (H6).
    """
    for number, group in enumerate(result.groups):
        counted_in = sum(file.records for file in group.inputs)
        counted_out = sum(file.records for file in group.outputs)
        if not (group.rows_in - group.rows_masked == group.rows_out == counted_out):
            text = f"group {number}: {group.rows_in} - {group.rows_masked} rows, {counted_out} out"
            return Conflict(ConflictReason.PROOF_FAILED, text)
        if group.rows_in != counted_in:
            text = f"group {number}: {group.rows_in} rows read of {counted_in}"
            return Conflict(ConflictReason.PROOF_FAILED, text)
    newest = max((file.sequence_number for file in inputs(result)), default=0)
    if not newest <= result.start_sequence_number <= head.last_sequence_number:
        text = f"stamp {result.start_sequence_number}: inputs up to {newest}, table at "
        return Conflict(ConflictReason.PROOF_FAILED, text + str(head.last_sequence_number))
    return None


def inputs_live(result: RewriteFinished, head: Head) -> Conflict | None:
    """Every input is live, and is the same file: same number, same rows."""
    seen: set[str] = set()
    for file in inputs(result):
        path = normal_path(file.path)
        live = head.data.get(path)
        if live is None or path in seen:
            return Conflict(ConflictReason.INPUTS_GONE, file.path)
        if (live.sequence_number, live.records) != (file.sequence_number, file.records):
            text = f"{file.path} is another: {live.sequence_number}, {live.records} rows"
            return Conflict(ConflictReason.INPUTS_GONE, text)
        seen.add(path)
    return None


def applied_live(result: RewriteFinished, head: Head) -> Conflict | None:
    """Every delete that the worker applied still holds; a rollback may have taken one back."""
    live = {(delete.normal, delete.sequence_number) for delete in head.deletes}
    for delete in result.applied_deletes:
        if (normal_path(delete.path), delete.sequence_number) not in live:
            return Conflict(ConflictReason.APPLIED_DELETE_GONE, delete.path)
    return None


def nothing_missed(result: RewriteFinished, head: Head) -> Conflict | None:
    """No delete that was not applied touches an input, unless it will touch the output as well:
    equality deletes above the stamp do, position deletes and DVs never do (H2, H4)."""
    applied = {normal_path(delete.path) for delete in result.applied_deletes}
    numbers = {normal_path(file.path): file.sequence_number for file in inputs(result)}
    unapplied = [delete for delete in head.deletes if delete.normal not in applied]
    vectored = {
        delete.referenced_data_file
        for delete in head.deletes
        if delete.kind is DeleteKind.DELETION_VECTOR
    }
    for delete in unapplied:
        named = _may_name(delete, result, numbers)
        if delete.kind is DeleteKind.DELETION_VECTOR and named:
            return Conflict(ConflictReason.NEW_DELETION_VECTORS, _shown(delete))
        # a DV hides every position-delete file of its data file
        if delete.kind is DeleteKind.POSITION and named - vectored:
            return Conflict(ConflictReason.NEW_POSITION_DELETES, _shown(delete))
        if delete.kind is DeleteKind.EQUALITY and _would_end(delete, result, numbers):
            return Conflict(ConflictReason.OLD_EQUALITY_DELETE, _shown(delete))
    return None


def _may_name(
    delete: LiveDelete, result: RewriteFinished, numbers: dict[str, int]
) -> set[str | None]:
    """Inputs that a position delete or DV may be about."""
    named = delete.referenced_data_file
    if named is not None:
        paths = {named} & set(numbers)
    else:
        paths = set(numbers) if delete.scope == result.scope else set()
    return {path for path in paths if numbers[path] <= delete.sequence_number}


def _would_end(delete: LiveDelete, result: RewriteFinished, numbers: dict[str, int]) -> bool:
    """An equality delete that applies to an input, but would not to a file with the stamp."""
    oldest = min(numbers.values(), default=delete.sequence_number)
    ends = oldest < delete.sequence_number <= result.start_sequence_number
    return ends and reaches(delete, result.scope)


def _shown(delete: LiveDelete) -> str:
    return f"{delete.path} ({delete.sequence_number})"


def partition_kept(result: RewriteFinished, head: Head) -> Conflict | None:
    """Inputs and outputs are of the result's own spec and partition.

    Across specs an explicit sequence number loses deletes and applies foreign ones
    (iceberg-rules 2.4 b); a spec evolved meanwhile is harmless as long as the outputs keep theirs.
    """
    for file in inputs(result):
        live = head.data.get(normal_path(file.path))
        if live is not None and live.scope != result.scope:
            return Conflict(ConflictReason.SPEC_CHANGED, f"{file.path} is of {live.scope}")
    place = _place(result.scope.spec_id, json.loads(result.scope.partition))
    for output in outputs(result):
        body = json.loads(output.content_file_json)
        if (found := _place(body["spec-id"], body.get("partition", []))) != place:
            return Conflict(ConflictReason.SPEC_CHANGED, f"{output.path} is of {found}")
    return None


def _place(spec_id: int, partition: list[object] | dict[str, object]) -> tuple[int, list[object]]:
    """Comparable form. Iceberg up to 1.9 wrote an object by field id, in field order; the values
    of a spec whose fields are all void are nulls there and missing here."""
    values = list(partition.values()) if isinstance(partition, dict) else partition
    return spec_id, values if any(value is not None for value in values) else []


def started_before(result: RewriteFinished, head: Head) -> Conflict | None:
    """Where history exists, the start is an ancestor of the head (H8)."""
    start = result.start_snapshot_id
    known = start in head.retained or head.reaches_root
    if start not in head.ancestors and known:
        text = f"{start} is not an ancestor of {head.snapshot_id}"
        return Conflict(ConflictReason.START_NOT_ANCESTOR, text)
    return None


CHECKS = (proof, inputs_live, applied_live, nothing_missed, partition_kept, started_before)


def inputs(result: RewriteFinished) -> Iterator[InputFile]:
    """Input files of all groups."""
    return (file for group in result.groups for file in group.inputs)


def outputs(result: RewriteFinished) -> Iterator[OutputFile]:
    """Output files of all groups."""
    return (file for group in result.groups for file in group.outputs)
