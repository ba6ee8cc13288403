"""What changes between plan and commit without a change of any file that the result names: the
same file once more, another format version, another schema. Each with its guard and without.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from firnline_committer.commit import post_commit_check
from firnline_domain.base.values import replace
from firnline_domain.commits import conflicts
from firnline_domain.records.events import RewriteCommitted, RewriteConflicted
from firnline_domain.records.parts.conflict_reasons import ConflictReason
from firnline_domain.records.results import RewriteFinished
from firnline_iceberg.commit import java_commits
from firnline_iceberg.commit.java_commits import JavaCommits
from pyiceberg.catalog.rest import RestCatalog

from tests.kit.lake.checks import handled
from tests.kit.lake.guards import Guard, make_guard_test, removed
from tests.kit.lake.writer import described, local

pytestmark = pytest.mark.stack
Table = Any  # tests.kit.lake.scenario.CommitScenario
Committer = Any  # firnline_committer.handlers.CommitterHandlers
Meddler = Any  # tests.meddling.Meddler
GUARDED = pytest.mark.parametrize("guarded", [True, False])


def refused(committer: Committer, result: RewriteFinished, reason: ConflictReason) -> None:
    event = handled(committer, result)
    assert isinstance(event, RewriteConflicted)
    assert event.reason is reason, event.detail


# ---- the same file twice: appended again, as `add_files` does that is run twice


NO_DUPLICATES = removed(conflicts.no_duplicates)
NO_SECOND_LOOK = (post_commit_check, "needed_but_removed", lambda *_: None)
GUARDS = [
    # Each entry in a group of its own: the second group is lost, and the first removes both.
    Guard(
        "data file twice", "append 1 2 | again f1 | append 3 | rewrite groups=2",
        ConflictReason.DUPLICATE_FILES, "1 1 2 2 3", "1 2 3", (NO_DUPLICATES,),
    ),
    Guard(
        "data file once more meanwhile", "append 1 2 | append 3 | rewrite | again f1",
        ConflictReason.DUPLICATE_FILES, "1 1 2 2 3", "1 2 3", (NO_DUPLICATES,),
    ),
    # The older entry applies to nothing any more; removed by its path, it takes the younger
    # along, which a row of later needs.
    Guard(
        "delete file twice",
        "append 9:9 p=b | append 1 2 p=a | eq_delete 1 p=a"
        " | rewrite p=a | append 1:2 p=a | again f3",
        ConflictReason.DUPLICATE_FILES, "2 9:9", "1:2 2 9:9", (NO_DUPLICATES, NO_SECOND_LOOK), True,
    ),
]  # fmt: skip


# Each refuses, and without it the wrong rows show.
test_a_guard = make_guard_test(GUARDS)


# ---- format version, schema, name mapping


def upgraded(table: Table) -> None:
    """To v3; the next commit gives every row its id."""
    table.java.updateProperties().set("format-version", "3").commit()
    table.append((9, 9))


def row_ids(table: Table) -> dict[int, int]:
    """By `id`, as Iceberg's generic reader shows them."""
    java = table.java
    fields = [
        {"id": 1, "name": "id", "required": False, "type": "long"},
        {"id": 2147483540, "name": "_row_id", "required": False, "type": "long"},
    ]
    text = json.dumps({"type": "struct", "schema-id": 0, "fields": fields})
    schema = table.jvm.org.apache.iceberg.SchemaParser.fromJson(text)
    reader = table.jvm.org.apache.iceberg.data.IcebergGenerics.read(java).project(schema)
    records, found = reader.build().iterator(), {}
    while records.hasNext():
        record = records.next()
        found[record.getField("id")] = record.getField("_row_id")
    return found


@GUARDED
def test_a_result_of_v2_in_a_table_of_v3(
    table: Table, committer: Committer, guarded: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    table.append((1, 1), (2, 1))
    table.append((3, 1))
    result = table.rewrite()
    upgraded(table)
    before = row_ids(table)
    assert None not in before.values()
    if guarded:
        refused(committer, result, ConflictReason.FORMAT_CHANGED)
        assert row_ids(table) == before
    else:
        monkeypatch.setattr(*removed(conflicts.form_kept))
        handled(committer, result)
        assert row_ids(table) != before


def test_a_table_that_becomes_v4_is_left_alone(table: Table, committer: Committer) -> None:
    table.append((1, 1), (2, 1))
    result = table.rewrite()
    table.java.updateProperties().set("format-version", "4").commit()
    event = handled(committer, result)
    assert (type(event), event.reason) == (RewriteConflicted, ConflictReason.FORMAT_VERSION_4)
    assert table.java.currentSnapshot().operation() == "append"


def narrower(table: Table, result: RewriteFinished) -> RewriteFinished:
    """As a worker makes it to whom `v` is no column of the table."""
    (group,) = result.groups
    (output,) = group.outputs
    path = table.output_path()
    rows = pq.read_table(local(output.path)).select(["id"])
    pq.write_table(rows, local(path), store_schema=False)
    size = local(path).stat().st_size
    text = described(table.place(), path, size, len(rows))
    mine = replace(output, path=path, bytes=size, content_file_json=text)
    return replace(result, groups=(replace(group, outputs=(mine,)),))


def in_force(table: Table, schema_id: int) -> None:
    """An older schema is made the current one again, as the REST specification lets a client."""
    operations = table.java.operations()
    base = operations.current()
    builder = table.jvm.org.apache.iceberg.TableMetadata.buildFrom(base)
    operations.commit(base, builder.setCurrentSchema(schema_id).build())


def planned_without_v(table: Table) -> RewriteFinished:
    table.append((1, 1), (2, 1))
    table.append((3, 1))
    table.java.updateSchema().deleteColumn("v").commit()
    return narrower(table, table.rewrite())


WHOLE = [(1, 1), (2, 1), (3, 1)]
EMPTY = [(1, None), (2, None), (3, None)]


@GUARDED
def test_a_column_that_was_dropped_when_it_was_planned_and_is_there_again(
    table: Table, committer: Committer, guarded: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    result = planned_without_v(table)
    in_force(table, 0)
    assert table.rows() == WHOLE
    if guarded:
        refused(committer, result, ConflictReason.SCHEMA_CHANGED)
        assert table.rows() == WHOLE
        assert isinstance(handled(committer, table.rewrite()), RewriteCommitted)
        assert table.rows() == WHOLE
    else:
        monkeypatch.setattr(*removed(conflicts.form_kept))
        handled(committer, result)
        assert table.rows() == EMPTY


def mapped(table: Table, **ids: int) -> None:
    """The names in files that have no ids."""
    text = json.dumps([{"field-id": number, "names": [name]} for name, number in ids.items()])
    table.java.updateProperties().set("schema.name-mapping.default", text).commit()


@GUARDED
def test_a_column_that_is_mapped_since_it_was_planned(
    table: Table,
    committer: Committer,
    lake: RestCatalog,
    guarded: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Files of other engines have no ids: what is mapped to no column is not read. Iceberg's
    generic reader knows no mapping: PyIceberg's does."""

    def rows() -> list[tuple[int, int | None]]:
        found = lake.load_table((*table.name.namespace, table.name.name)).scan().to_arrow()
        return sorted((row["id"], row["v"]) for row in found.to_pylist())

    mapped(table, id=1, v=99, p=3)
    for written in ([(1, 1), (2, 1)], [(3, 1)]):
        body = json.loads(table.data(written))
        path = local(body["file-path"])
        bare = pq.read_table(path)
        unnumbered = pa.schema([pa.field(one.name, one.type) for one in bare.schema])
        pq.write_table(bare.cast(unnumbered), path, store_schema=False)
        text = json.dumps({**body, "file-size-in-bytes": path.stat().st_size})
        table.writer.append(text)
    assert rows() == EMPTY
    result = narrower(table, table.rewrite())
    mapped(table, id=1, v=2, p=3)
    assert rows() == WHOLE
    if guarded:
        refused(committer, result, ConflictReason.SCHEMA_CHANGED)
        assert rows() == WHOLE
    else:
        monkeypatch.setattr(*removed(conflicts.form_kept))
        handled(committer, result)
        assert rows() == EMPTY


# ---- the same after the head was examined: its snapshot is the pinned one still


@GUARDED
@pytest.mark.parametrize("reason", [ConflictReason.SCHEMA_CHANGED, ConflictReason.FORMAT_CHANGED])
def test_the_form_is_looked_at_again_where_java_commits(
    table: Table,
    committer: Committer,
    reason: ConflictReason,
    guarded: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    result = planned_without_v(table)
    load, changes = JavaCommits._load_java, [lambda: in_force(table, 0)]
    if reason is ConflictReason.FORMAT_CHANGED:
        set_v3 = table.java.updateProperties().set("format-version", "3")
        changes = [set_v3.commit]

    def meanwhile(self: JavaCommits, name: Any) -> Any:
        if changes:
            changes.pop()()
        return load(self, name)

    monkeypatch.setattr(JavaCommits, "_load_java", meanwhile)
    if guarded:
        head = table.head
        refused(committer, result, reason)
        assert table.head == head
    else:
        monkeypatch.setattr(java_commits, "form_of_java", lambda _: result.form)
        assert isinstance(handled(committer, result), RewriteCommitted)
        if reason is ConflictReason.SCHEMA_CHANGED:
            assert table.rows() == EMPTY


def test_an_upgrade_while_the_request_is_on_its_way(
    table: Table, meddled: Committer, meddler: Meddler
) -> None:
    """What is written as v2 is not taken into a table of v3: a snapshot without row ids."""
    result = table.append((1, 1), (2, 1)) and table.rewrite()
    change: Callable[[], object] = table.java.updateProperties().set("format-version", "3").commit
    meddler.before = [change]
    event = handled(meddled, result)
    assert isinstance(event, RewriteConflicted), event
    assert table.rows() == [(1, 1), (2, 1)]
