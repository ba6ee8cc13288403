"""May a result be committed onto a pinned head? Decided from the state there (history-only hazard,
H8).

History alone cannot say it: starts expire, and some catalogs keep a single snapshot.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping

from firnline_domain.base.values import Value, replace
from firnline_domain.commits.pinned_head import Head, LiveDelete, reaches_scope
from firnline_domain.commits.row_count_proof import find_flaw
from firnline_domain.commits.schemas import first_unreadable
from firnline_domain.identity import Scope, normal_path
from firnline_domain.records.parts.conflict_reasons import ConflictReason
from firnline_domain.records.results import (
    AppliedDelete,
    DeleteKind,
    InputFile,
    OutputFile,
    RewriteFinished,
)

REPAIRABLE = frozenset(
    {
        ConflictReason.APPLIED_POSITION_DELETE_GONE,
        ConflictReason.NEW_POSITION_DELETES,
        ConflictReason.NEW_DELETION_VECTORS,
    }
)
"""Position deletes and deletion vectors came on replaced files, or took the place of applied ones:
what they say can be said of the outputs, where the row map still is (repair-start hazard, H4;
unpaired-repair hazard, H5)."""


class Conflict(Value):
    """Reason why a result, or one of its groups, is refused."""

    reason: ConflictReason
    detail: str


class Judgement(Value):
    """Judgement of a result on a head, by number of its groups: the rest may be committed as is."""

    touched: dict[int, Conflict]  # may be committed once it is repaired
    lost: dict[int, Conflict]


def judge_result(result: RewriteFinished, head: Head) -> Judgement:
    """Judge each group for itself: one that is lost never takes the others along. But a group that
    does not balance does: the worker that made it made the others."""
    if imbalance := _find_imbalance(result):
        return Judgement({}, dict.fromkeys(range(len(result.groups)), imbalance))
    verdict, taken = Judgement({}, {}), set[str]()
    for number, group in enumerate(result.groups):
        conflict = find_conflict(replace(result, groups=(group,)), head)
        paths = {normal_path(file.path) for file in group.inputs}
        if conflict is None and paths & taken:
            conflict = Conflict(ConflictReason.PROOF_FAILED, f"group {number} shares an input")
        if conflict is not None:
            of_its_kind = conflict.reason in REPAIRABLE
            (verdict.touched if of_its_kind else verdict.lost)[number] = conflict
        taken |= paths
    return verdict


def find_conflict(result: RewriteFinished, head: Head) -> Conflict | None:
    """Return the first reason against committing all of `result` onto `head`; None = it may be
    committed. A repairable one only if there is no other. The hazard of Iceberg issue 10312 depends
    on all results of a commit: see `commit_plan`."""
    return next((conflict for check in CHECKS if (conflict := check(result, head))), None)


def no_duplicates(_: RewriteFinished, head: Head) -> Conflict | None:
    """Check that no file is live twice: files are removed by path, so a result that replaces one
    would also remove the rows of the other entry, or a delete file that is still needed."""
    if not head.repeated:
        return None
    text = f"{min(head.repeated)} is in the table more than once"
    return Conflict(ConflictReason.DUPLICATE_FILES, text)


def form_kept(result: RewriteFinished, head: Head) -> Conflict | None:
    """Check that the outputs have the form that readers of the table expect now.

    Those of a v2 table have no row ids, and get new ones in v3. A column that is read now may not
    have been one when the rows were copied (an older schema made current again, a name that is
    mapped now)."""
    then, now = result.form, head.form
    if (then.format_version, then.encrypted) != (now.format_version, now.encrypted):
        encrypted = ", encrypted" if now.encrypted else ""
        text = f"planned as v{then.format_version}, now v{now.format_version}{encrypted}"
        return Conflict(ConflictReason.FORMAT_CHANGED, text)
    changed = first_unreadable(then, head.schemas, now.schema_id)
    # a catalog with branches of its own may give an id to a second schema
    known = head.schema_checksums.get(then.schema_id, "")
    if changed is None and result.schema_checksum != known:
        changed = f"schema {then.schema_id} is another one"
    if changed is None and then.name_mapping != now.name_mapping:
        changed = "another name mapping"
    return None if changed is None else Conflict(ConflictReason.SCHEMA_CHANGED, changed)


def check_proof(result: RewriteFinished, head: Head) -> Conflict | None:
    """Check that rows and keys add up in every group, and that the start's sequence number lies
    between that of the newest input and the head's. An input above it would come under deletes
    older than itself (shared-number hazard, H6)."""
    if imbalance := _find_imbalance(result):
        return imbalance
    newest = max((file.sequence_number for file in input_files(result)), default=0)
    if not newest <= result.start_sequence_number <= head.last_sequence_number:
        text = f"start {result.start_sequence_number}: inputs up to {newest}, table at "
        return Conflict(ConflictReason.PROOF_FAILED, text + str(head.last_sequence_number))
    return None


def _find_imbalance(result: RewriteFinished) -> Conflict | None:
    first_flaw = find_flaw(result.groups)
    return None if first_flaw is None else Conflict(ConflictReason.PROOF_FAILED, first_flaw.detail)


def inputs_live(result: RewriteFinished, head: Head) -> Conflict | None:
    """Check that every input is live, and the same file: same number, same rows."""
    seen: set[str] = set()
    for file in input_files(result):
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
    """Check that every equality delete that the worker applied still holds: a rollback may have
    removed one."""
    gone = (delete for delete in _applied_gone(result, head) if delete.kind is DeleteKind.EQUALITY)
    return next(
        (Conflict(ConflictReason.APPLIED_DELETE_GONE, delete.path) for delete in gone), None
    )


def position_deletes_live(result: RewriteFinished, head: Head) -> Conflict | None:
    """Check the same for position deletes and deletion vectors. These are also rewritten: a
    writer's next vector of a file holds the positions of the one before, and replaces it."""
    rewritten = without_conversions(result)
    if not rewritten.groups:  # what its own position deletes say of a file stays as it is
        return None
    gone = (
        delete
        for delete in _applied_gone(rewritten, head)
        if delete.kind is not DeleteKind.EQUALITY
    )
    reason = ConflictReason.APPLIED_POSITION_DELETE_GONE
    return next((Conflict(reason, delete.path) for delete in gone), None)


def _applied_gone(result: RewriteFinished, head: Head) -> Iterator[AppliedDelete]:
    """Yield the applied deletes that are gone, of those that an input may come under: the others go
    when what they applied to goes."""
    oldest = min((file.sequence_number for file in input_files(result)), default=0)
    for delete in result.applied_deletes:
        strictly = delete.kind is DeleteKind.EQUALITY
        if delete.sequence_number < oldest + strictly:
            continue
        if (normal_path(delete.path), delete.sequence_number) not in head.live_deletes:
            yield delete


def nothing_missed(result: RewriteFinished, head: Head) -> Conflict | None:
    """Check that no unapplied equality delete touches an input, unless it also touches the output:
    those above the start do."""
    numbers = [file.sequence_number for file in input_files(result)]
    oldest, start = min(numbers, default=0), result.start_sequence_number
    for delete in _unapplied_deletes(result, head):
        would_end = numbers and oldest < delete.sequence_number <= start
        if delete.kind is DeleteKind.EQUALITY and would_end and reaches_scope(delete, result.scope):
            return Conflict(ConflictReason.OLD_EQUALITY_DELETE, _describe_delete(delete))
    return None


def no_position_delete_missed(result: RewriteFinished, head: Head) -> Conflict | None:
    """Check that no unapplied position delete or vector may be about an input: it is never about an
    output, at any number (unapplied-delete hazard, H2; repair-start hazard, H4)."""
    return next(
        (_missed_delete(delete) for delete in unapplied_position_deletes(result, head)), None
    )


def unapplied_position_deletes(result: RewriteFinished, head: Head) -> Iterator[LiveDelete]:
    """Yield the position deletes and vectors that the worker did not apply and that may name a
    replaced input."""
    numbers = {normal_path(file.path): file.sequence_number for file in replaced_files(result)}
    for delete in _unapplied_deletes(result, head):
        if delete.kind is not DeleteKind.EQUALITY:
            named = named_by(delete, result.scope, numbers)
            # a DV hides every position-delete file of its data file
            hidden = (
                head.paths_with_vector if delete.kind is DeleteKind.POSITION else frozenset[str]()
            )
            if named - hidden:
                yield delete


def _missed_delete(delete: LiveDelete) -> Conflict:
    vector = delete.kind is DeleteKind.DELETION_VECTOR
    came = ConflictReason.NEW_DELETION_VECTORS if vector else ConflictReason.NEW_POSITION_DELETES
    return Conflict(came, _describe_delete(delete))


def _unapplied_deletes(result: RewriteFinished, head: Head) -> Iterator[LiveDelete]:
    """Yield live deletes that were not applied, by path and number: a Puffin file holds vectors of
    several data files, but of one commit."""
    applied = {
        (normal_path(delete.path), delete.sequence_number) for delete in result.applied_deletes
    }
    return (
        delete
        for delete in head.deletes
        if (delete.normal_path, delete.sequence_number) not in applied
    )


def named_by(delete: LiveDelete, scope: Scope, numbers: Mapping[str, int]) -> set[str]:
    """Return the inputs that a position delete or vector may be about. `numbers`: data sequence
    number of each input of `scope`, by normal path."""
    named = delete.referenced_data_file
    if named is not None:
        paths = {named} & numbers.keys()
    else:
        paths = set(numbers) if delete.scope == scope else set()
    return {path for path in paths if numbers[path] <= delete.sequence_number}


def _describe_delete(delete: LiveDelete) -> str:
    return f"{delete.path} ({delete.sequence_number})"


def partition_kept(result: RewriteFinished, head: Head) -> Conflict | None:
    """Check that inputs and outputs are of the result's own spec and partition.

    Across specs an explicit sequence number loses deletes and applies those of others
    (iceberg-rules 1.4 b). A spec that has evolved since is harmless as long as the outputs keep
    theirs."""
    for file in input_files(result):
        live = head.data.get(normal_path(file.path))
        if live is not None and live.scope != result.scope:
            return Conflict(ConflictReason.SPEC_CHANGED, f"{file.path} is of {live.scope}")
    place = _comparable_partition(result.scope.spec_id, json.loads(result.scope.partition))
    for output in output_files(result):
        body = json.loads(output.content_file_json)
        if (
            output_place := _comparable_partition(body["spec-id"], body.get("partition", []))
        ) != place:
            return Conflict(ConflictReason.SPEC_CHANGED, f"{output.path} is of {output_place}")
    return None


def _comparable_partition(
    spec_id: int, partition: list[object] | dict[str, object]
) -> tuple[int, list[object]]:
    """Return a comparable form. Iceberg up to 1.9 wrote an object by field id, in field order; the
    values of a spec whose fields are all void are nulls there and missing here."""
    values = list(partition.values()) if isinstance(partition, dict) else partition
    return spec_id, values if any(value is not None for value in values) else []


def started_before(result: RewriteFinished, head: Head) -> Conflict | None:
    """Return a conflict unless the start is an ancestor of the head (history-only hazard, H8). A
    catalog that hides history shows a head as if it were the root: there the start must have left
    something in the head."""
    start = result.start_snapshot_id
    if start in head.traced and start not in head.retained:
        return None
    known = start in head.retained or head.reaches_root
    if start not in head.ancestors and known:
        text = f"{start} is not an ancestor of {head.snapshot_id}"
        return Conflict(ConflictReason.START_NOT_ANCESTOR, text)
    return None


CHECKS = (
    no_duplicates,
    form_kept,
    check_proof,
    inputs_live,
    applied_live,
    nothing_missed,
    partition_kept,
    started_before,
    position_deletes_live,
    no_position_delete_missed,
)


def input_files(result: RewriteFinished) -> Iterator[InputFile]:
    """Yield the input files of all groups."""
    return (file for group in result.groups for file in group.inputs)


def replaced_files(result: RewriteFinished) -> Iterator[InputFile]:
    """Yield the inputs that are replaced; those of conversions stay."""
    return input_files(without_conversions(result))


def without_conversions(result: RewriteFinished) -> RewriteFinished:
    """Return the result with only the groups that replace files."""
    return replace(result, groups=tuple(group for group in result.groups if not group.converts))


def output_files(result: RewriteFinished) -> Iterator[OutputFile]:
    """Yield the output files of all groups."""
    return (file for group in result.groups for file in group.outputs)
