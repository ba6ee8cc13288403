"""What is refused would change the visible rows; what does not conflict is accepted."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from firnline_domain.base.values import Value, replace
from firnline_domain.commits import conflicts
from firnline_domain.commits.commit_plan import (
    plan_commit,
    spent_deletes,
)
from firnline_domain.commits.pinned_head import Head
from firnline_domain.identity import Scope
from firnline_domain.records.parts.conflict_reasons import ConflictReason
from firnline_domain.records.results import (
    DeleteKind,
    RewriteFinished,
)

from tests.kit.branch_model import (
    ALL,
    COLUMNS,
    OUTPUTS,
    A,
    B,
    Table,
    bare,
    group,
    rewrite,
    verdict,
)

# ---- what may happen between start and commit, one story each


class Story(Value):
    reason: ConflictReason
    table: Table
    result: RewriteFinished
    head: Head


def new_position_delete() -> Story:
    table = Table()
    path = table.append(A, 1, 2)
    result = rewrite(table, A)
    table.pos_delete(path, 1)
    return Story(ConflictReason.NEW_POSITION_DELETES, table, result, table.pinned())


def new_position_delete_of_the_partition() -> Story:
    table = Table()
    path = table.append(A, 1, 2)
    result = rewrite(table, A)
    table.pos_delete(path, 1, whole_partition=True)
    return Story(ConflictReason.NEW_POSITION_DELETES, table, result, table.pinned())


def new_deletion_vector() -> Story:
    story = new_position_delete()
    name, delete = next(iter(story.table.deletes.items()))
    story.table.deletes[name] = replace(delete, kind=DeleteKind.DELETION_VECTOR)
    return replace(story, reason=ConflictReason.NEW_DELETION_VECTORS, head=story.table.pinned())


def applied_delete_rolled_back() -> Story:
    table = Table()
    table.append(A, 1, 2)
    before = table.head
    table.eq_delete(A, 1)
    result = rewrite(table, A)
    table.roll_back(before)
    return Story(ConflictReason.APPLIED_DELETE_GONE, table, result, table.pinned(history=False))


def applied_position_delete_rolled_back() -> Story:
    table = Table()
    path = table.append(A, 1, 2)
    before = table.head
    table.pos_delete(path, 1)
    result = rewrite(table, A)
    table.roll_back(before)
    reason = ConflictReason.APPLIED_POSITION_DELETE_GONE
    return Story(reason, table, result, table.pinned(history=False))


def input_removed() -> Story:
    table = Table()
    path = table.append(A, 1, 2)
    result = rewrite(table, A)
    table.commit(gone=[path])
    return Story(ConflictReason.INPUTS_GONE, table, result, table.pinned())


def delete_below_the_stamp_not_applied() -> Story:
    table = Table()
    table.append(A, 1, 2)
    table.eq_delete(A, 1)
    table.append(A, 3)
    result = rewrite(table, A)
    kept = group(table, list(table.data.values()), ((1, 1), (2, 1), (3, 3)), A)
    missed = replace(result, groups=(kept,), applied_deletes=())
    return Story(ConflictReason.OLD_EQUALITY_DELETE, table, missed, table.pinned())


def global_delete_below_the_stamp_not_applied() -> Story:
    table = Table()
    table.append(A, 1, 2)
    table.eq_delete(ALL, 1)
    result = rewrite(table, A)
    kept = group(table, list(table.data.values()), ((1, 1), (2, 1)), A)
    missed = replace(result, groups=(kept,), applied_deletes=())
    return Story(ConflictReason.OLD_EQUALITY_DELETE, table, missed, table.pinned())


def rows_do_not_add_up() -> Story:
    table = Table()
    table.append(A, 1, 2)
    result = rewrite(table, A)
    (one,) = result.groups
    short = group(table, list(table.data.values()), ((1, 1),), A)
    lost = replace(one, outputs=short.outputs)
    return Story(
        ConflictReason.PROOF_FAILED, table, replace(result, groups=(lost,)), table.pinned()
    )


def stamp_below_an_input() -> Story:
    """Shared-number hazard (H6): a group planned at 3 and written at 1 comes under a delete older
    than its rows."""
    table = Table()
    table.append(A, 9)
    table.append(B, 7)
    table.eq_delete(ALL, 1)
    table.append(A, 1)
    result = replace(rewrite(table, A), start_sequence_number=1, applied_deletes=())
    return Story(ConflictReason.PROOF_FAILED, table, result, table.pinned())


def stamp_in_the_future() -> Story:
    table = Table()
    table.append(A, 1)
    table.append(B, 1)
    result = replace(rewrite(table, A), start_sequence_number=3)
    head = table.pinned()
    table.eq_delete(A, 1)
    return Story(ConflictReason.PROOF_FAILED, table, result, head)


def outputs_of_another_spec() -> Story:
    """iceberg-rules 1.4 b: the concurrent delete of the old spec stops applying."""
    table = Table()
    table.append(A, 1, 2)
    result = rewrite(table, A)
    table.eq_delete(A, 1)
    (one,) = result.groups
    (output,) = one.outputs
    OUTPUTS[output.path] = replace(OUTPUTS[output.path], scope=Scope(2, "[]"))
    moved = replace(output, content_file_json='{"spec-id":2,"partition":[]}')
    changed = replace(result, groups=(replace(one, outputs=(moved,)),))
    return Story(ConflictReason.SPEC_CHANGED, table, changed, table.pinned())


def hazard_10312() -> Story:
    table = Table()
    table.append(ALL, 1, 2)
    result = rewrite(table, ALL)
    table.eq_delete(ALL, 1)
    table.append(ALL, 3)
    return Story(ConflictReason.HAZARD_10312, table, result, table.pinned())


def hazard_of_the_stamp_alone() -> Story:
    """Merge-number hazard (H1): nothing concurrent; written at M = 2 while delete 3 and append 4
    exist already."""
    table = Table()
    table.append(ALL, 1)
    table.append(ALL, 2)
    table.eq_delete(ALL, 1)
    table.append(ALL, 4)
    result = rewrite(table, ALL, sequence_number=2)
    return Story(ConflictReason.HAZARD_10312, table, result, table.pinned())


def data_file_twice() -> Story:
    """Of two groups with one entry each only one can be committed, and removes both."""
    table = Table()
    path = table.append(A, 1, 2)
    table.commit(replace(table.data[path], sequence_number=-1))
    both = rewrite(table, A, groups=2)
    result = replace(both, groups=both.groups[:1])
    return Story(ConflictReason.DUPLICATE_FILES, table, result, table.pinned())


def data_file_twice_meanwhile() -> Story:
    table = Table()
    path = table.append(A, 1, 2)
    result = rewrite(table, A)
    table.commit(replace(table.data[path], sequence_number=-1))
    return Story(ConflictReason.DUPLICATE_FILES, table, result, table.pinned())


def delete_file_twice() -> Story:
    """The older entry is spent with the rewrite, and takes the younger along."""
    table = Table()
    table.append(A, 1, 2)
    path = table.eq_delete(A, 1)
    result = rewrite(table, A)
    table.append(A, 1)
    table.append(B, 1)  # old files elsewhere: Iceberg drops nothing by itself
    table.commit(replace(table.deletes[path], sequence_number=-1))
    return Story(ConflictReason.DUPLICATE_FILES, table, result, table.pinned())


def format_changed() -> Story:
    """Rows without ids would get new ones in v3: see tests/integration/commits."""
    table = Table()
    table.append(A, 1, 2)
    head = table.pinned()
    v3 = replace(head, form=replace(head.form, format_version=3))
    return Story(ConflictReason.FORMAT_CHANGED, table, rewrite(table, A), v3)


def encrypted_meanwhile() -> Story:
    table = Table()
    table.append(A, 1, 2)
    head = table.pinned()
    sealed = replace(head, form=replace(head.form, encrypted=True))
    return Story(ConflictReason.FORMAT_CHANGED, table, rewrite(table, A), sealed)


def schema_changed() -> Story:
    """A column that was dropped when it was planned is read again."""
    table = Table()
    table.append(A, 1, 2)
    head = table.pinned()
    result = replace(rewrite(table, A), last_column_id=3)
    other = replace(
        head,
        form=replace(head.form, schema_id=1),
        schemas={**head.schemas, 1: {**COLUMNS, 3: "long"}},
    )
    return Story(ConflictReason.SCHEMA_CHANGED, table, result, other)


def name_mapping_changed() -> Story:
    table = Table()
    table.append(A, 1, 2)
    head = table.pinned()
    other = replace(head, form=replace(head.form, name_mapping="x"))
    return Story(ConflictReason.SCHEMA_CHANGED, table, rewrite(table, A), other)


HARMFUL = [
    new_position_delete,
    new_position_delete_of_the_partition,
    applied_delete_rolled_back,
    applied_position_delete_rolled_back,
    input_removed,
    delete_below_the_stamp_not_applied,
    global_delete_below_the_stamp_not_applied,
    rows_do_not_add_up,
    stamp_below_an_input,
    stamp_in_the_future,
    outputs_of_another_spec,
    hazard_10312,
    hazard_of_the_stamp_alone,
    data_file_twice,
    data_file_twice_meanwhile,
    delete_file_twice,
]
OF_THE_TABLE = [format_changed, encrypted_meanwhile, schema_changed, name_mapping_changed]


@pytest.mark.parametrize("tell", [*HARMFUL, *OF_THE_TABLE, new_deletion_vector])
def test_a_result_is_refused_for_its_reason(tell: Callable[[], Story]) -> None:
    story = tell()
    found = verdict(story.result, story.head)
    assert found is not None
    assert found.reason is story.reason


@pytest.mark.parametrize("tell", HARMFUL)
def test_committing_it_all_the_same_changes_rows(tell: Callable[[], Story]) -> None:
    """Each guard is there for a reason: without it, these rows would be wrong."""
    story = tell()
    before = story.table.visible()
    spent = spent_deletes([story.result], story.head) if tell is delete_file_twice else ()
    story.table.swap([replace(bare(story.result), removed_deletes=spent)])
    assert story.table.visible() != before


@pytest.mark.parametrize("change", [{"sequence_number": 2}, {"rows": ((1, 1),)}])
def test_another_file_of_the_same_path_is_not_the_input(change: dict[str, object]) -> None:
    table = Table()
    path = table.append(A, 1, 2)
    table.append(B, 1)
    result = rewrite(table, A)
    table.data[path] = replace(table.data[path], **change)  # type: ignore[arg-type]
    found = verdict(result, table.pinned())
    assert found is not None
    assert found.reason is ConflictReason.INPUTS_GONE


def test_a_start_off_the_branch_is_refused_where_history_says_so() -> None:
    table = Table()
    table.append(A, 1)
    before = table.head
    table.append(B, 2)
    result = rewrite(table, A)
    table.roll_back(before)
    found = verdict(result, table.pinned())
    assert found is not None
    assert found.reason is ConflictReason.START_NOT_ANCESTOR
    assert verdict(result, table.pinned(history=False)) is None


@pytest.mark.parametrize("check", conflicts.CHECKS)
def test_every_check_is_needed(
    check: Callable[..., object], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without it, some story has another verdict."""
    without = tuple(one for one in conflicts.CHECKS if one is not check)
    monkeypatch.setattr(conflicts, "CHECKS", without)
    told = [tell() for tell in (*HARMFUL, *OF_THE_TABLE)]
    verdicts = [(story, verdict(story.result, story.head)) for story in told]
    if check is conflicts.started_before:
        with pytest.raises(AssertionError):
            test_a_start_off_the_branch_is_refused_where_history_says_so()
    else:
        assert any(found is None or found.reason is not s.reason for s, found in verdicts)


# ---- what does not conflict


def test_concurrent_appends_and_upserts_do_not_conflict() -> None:
    table = Table()
    table.append(A, 1, 2)
    table.upsert(A, 1)
    result = rewrite(table, A)
    table.upsert(A, 2)
    table.append(A, 5)
    before = table.visible()
    head = table.pinned()
    assert verdict(result, head) is None
    table.swap(plan_commit([result], head).snapshots)
    assert table.visible() == before


def test_a_deletion_vector_hides_position_deletes() -> None:
    """A v3 table upgraded from v2: the worker applied the DV only, and that is right."""
    table = Table()
    path = table.append(A, 1, 2)
    old = table.pos_delete(path, 1)
    table.commit(replace(table.deletes[old], path="dv", kind=DeleteKind.DELETION_VECTOR))
    result = rewrite(table, A)
    seen = replace(
        result, applied_deletes=tuple(d for d in result.applied_deletes if d.path == "dv")
    )
    assert verdict(seen, table.pinned()) is None
