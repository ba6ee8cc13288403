"""What has to become of a delivered result, by the model of rows: which groups must be lost, which
may be, and nothing else. No sequence number is looked at but for the one accepted hazard."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from firnline_deletes.deletes import row_map
from firnline_domain.commits.pinned_head import applies_to
from firnline_domain.records.parts.conflict_reasons import ConflictReason
from firnline_domain.records.parts.summaries import TASK_ID
from firnline_domain.records.results import RewriteFinished, RewriteGroup

from firnline_schedules.table import LabTable
from tests.kit.lake.rows import MAIN

Reasons = set[ConflictReason]
BACK = {
    ConflictReason.APPLIED_DELETE_GONE,
    ConflictReason.APPLIED_POSITION_DELETE_GONE,
    ConflictReason.OLD_EQUALITY_DELETE,
}
CONVERTED = "converted"  # a delivery that took equality deletes out, and left the files
REWINDS = ("rollback", "adopt", CONVERTED)


@dataclass
class Expected:
    """Of one result. `must`: groups that may not be committed, with the reasons that are right;
    `may`: those for which a refusal is accepted, and why."""

    in_table: bool = False  # committed before, and the table shows it
    must: dict[int, Reasons] = field(default_factory=dict)
    may: dict[int, Reasons] = field(default_factory=dict)
    hazard: bool = False  # the whole result may be refused for issue 10312


def expected(
    table: LabTable, result: RewriteFinished, committed: bool, since: Sequence[str]
) -> Expected:
    """On the table as it is now. `since`: steps since the start of the rewrite."""
    if committed and in_table(table, result):
        return Expected(in_table=True)
    found = Expected()
    for number, group in enumerate(result.groups):
        if reasons := lost(table, result, group):
            found.must[number] = reasons
        elif any(step in REWINDS for step in since):
            found.may[number] = set(BACK)
    found.hazard = hazardous(table, result, found, since)
    return found


def in_table(table: LabTable, result: RewriteFinished) -> bool:
    """By its id in the branch's history, or by an output in any retained snapshot."""
    loaded = table.loaded
    for one in loaded.ancestors(loaded.head_id(MAIN)):
        text = one.summary.get(TASK_ID) if one.summary is not None else None
        if result.task_id in (text or "").split(","):
            return True
    paths = {file.path for group in result.groups for file in group.outputs}
    return any(
        file.path in paths
        for one in loaded.snapshots
        for file in table.live_at(one.snapshot_id).data
    )


def lost(table: LabTable, result: RewriteFinished, group: RewriteGroup) -> Reasons:
    """Why a group may not be committed; nothing = it has to be."""
    reasons: Reasons = set()
    live = {file.path for file in table.live().data}
    if not {file.path for file in group.inputs} <= live:
        reasons.add(ConflictReason.INPUTS_GONE)
    if not all(table.ground.storage.exists(file.path) for file in group.outputs):
        reasons.add(ConflictReason.OUTPUTS_GONE)
    if off_branch(table, result):
        reasons.add(ConflictReason.START_NOT_ANCESTOR)
    if group.converts:
        return reasons | _lost_conversion(table, result, group)
    data = table.memory.data
    showing = {row for file in group.inputs for row in data[file.path]} & table.meant()
    if showing - {row for file in group.outputs for row in data[file.path]}:
        reasons |= BACK
    return reasons


def _lost_conversion(table: LabTable, result: RewriteFinished, group: RewriteGroup) -> Reasons:
    """Its row map is gone, or a row that it would mark shows."""
    storage, path = table.ground.storage, result.row_map or ""
    if not storage.exists(path):
        return {ConflictReason.OUTPUTS_GONE}
    rows = row_map.read_map(storage.get(path), path)
    dead = {
        table.memory.data[file.path][position]
        for file in group.inputs
        for position in rows.get(file.path, row_map.NOTHING).masked.tolist()
    }
    return set(BACK) if dead & table.meant() else set()


def converted(result: RewriteFinished) -> set[str]:
    """Files that it leaves where they are."""
    return {file.path for group in result.groups if group.converts for file in group.inputs}


def off_branch(table: LabTable, result: RewriteFinished) -> bool:
    """History shows that the branch does not come from the rewrite's start."""
    loaded = table.loaded
    line = list(loaded.ancestors(loaded.head_id(MAIN)))
    start = result.start_snapshot_id
    known = loaded.retains(start) or line[-1].parent_snapshot_id is None
    return known and start not in {one.snapshot_id for one in line}


def hazardous(
    table: LabTable, result: RewriteFinished, found: Expected, since: Sequence[str]
) -> bool:
    """A later equality delete is there, and the rewrite cannot be cut in two: it has a single
    group, or none with outputs that position deletes left alone."""
    number, scope = result.start_sequence_number, result.scope
    needed = any(applies_to(one, scope, number) for one in table.live().deletes)
    replacing = [(n, group) for n, group in enumerate(result.groups) if not group.converts]
    left = [group for n, group in replacing if n not in found.must]
    if not left:
        return False
    marked = any(step.startswith(("pos", "dv")) for step in since)
    whole = len(left) > 1 and not marked and not found.may and all(one.outputs for one in left)
    return needed and not whole


def yields_to(
    ought: Expected, result: RewriteFinished, first: Expected, before: RewriteFinished
) -> None:
    """Of two results in one delivery that replace the same file, the second loses its group; if it
    is not sure that the first is committed, then perhaps."""
    if first.in_table:
        return
    sure = not first.hazard and not first.may
    groups = (group for n, group in enumerate(before.groups) if n not in first.must)
    taken = {file.path for group in groups if not group.converts for file in group.inputs}
    for number, group in enumerate(result.groups):
        inputs = {file.path for file in group.inputs}
        if inputs & converted(before):
            ought.may.setdefault(number, set()).update(BACK)
        if inputs & taken:
            known = ought.must if sure or number in ought.must else ought.may
            known.setdefault(number, set()).add(ConflictReason.INPUTS_GONE)
