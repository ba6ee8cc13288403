"""Specs of every transform, specs that changed, tables that came from v1, branches."""

from __future__ import annotations

import pytest
from firnline_iceberg.scan.planning import live_files

pytestmark = [pytest.mark.spark, pytest.mark.stack]
COLUMNS = (
    "id BIGINT, n INT, d DECIMAL(9,2), s STRING, b BINARY, dt DATE, ts TIMESTAMP, nt TIMESTAMP_NTZ"
)
ROWS = [
    "(1, -7, -1.55, 'häuser', X'0102FF', DATE '1969-12-31', TIMESTAMP '1969-12-31 23:30:00Z',"
    " TIMESTAMP_NTZ '2026-01-02 03:04:05')",
    "(2, 7, 1.55, '', X'', DATE '2026-01-01', TIMESTAMP '2026-01-01 00:00:00Z',"
    " TIMESTAMP_NTZ '1960-01-02 03:04:05')",
    "(3, NULL, NULL, NULL, NULL, NULL, NULL, NULL)",
]
SPECS = [
    "bucket(3, id), truncate(10, n), truncate(50, d), truncate(2, s), truncate(2, b)",
    "years(dt), months(nt), hours(ts)",
    "days(dt), bucket(5, s), bucket(5, d), bucket(5, ts), bucket(5, b)",
    "n, d, s, b, dt, ts, nt",
]


def masked(result):
    return sum(group.rows_masked for group in result.groups)


@pytest.mark.parametrize("spec", SPECS)
def test_transforms(foreign, lab, rewritten, spec):
    lab.create(COLUMNS, f"PARTITIONED BY ({spec})")
    for row in ROWS:
        lab.insert(row)
        lab.insert(row)
    scopes = lab.scopes()
    assert len(scopes) == 3
    for scope in scopes:
        foreign.delete([1], {"id": 2}, {"id": 3}, scope=scope)
    assert len(lab.rows()) == 2
    assert sum(masked(rewritten(scope)) for scope in scopes) == 4
    assert len(lab.scopes()) == 1


def test_the_scopes_of_an_older_spec(foreign, lab, rewritten):
    lab.create("id BIGINT, day DATE, v INT", "PARTITIONED BY (day)")
    for v in range(2):
        lab.insert(f"(1, DATE '2026-01-01', {v}), (2, DATE '2026-01-01', {v}), (3, NULL, {v})")
    old = lab.scopes()
    lab.sql("ALTER TABLE {t} DROP PARTITION FIELD day")
    lab.sql("ALTER TABLE {t} ADD PARTITION FIELD bucket(2, id)")
    lab.insert("(1, DATE '2026-01-01', 2), (2, DATE '2026-01-01', 2), (3, NULL, 2)")
    new = [scope for scope in lab.scopes() if scope not in old]
    assert {scope.spec_id for scope in new} != {scope.spec_id for scope in old}
    foreign.delete([1], {"id": 1}, {"id": 3}, scope=old[0])  # the old spec's partition only
    foreign.delete([1], {"id": 2}, scope=new[0])
    foreign.delete([1], {"id": 2}, scope=new[-1])
    for scope in lab.scopes():
        rewritten(scope)
    table = lab.table()
    live = live_files(table, table.head_id("main")).data
    assert {file.spec_id for file in live} == {scope.spec_id for scope in (*old, *new)}


def test_files_of_v1_in_a_table_upgraded_to_v2_and_to_v3(foreign, lab, rewritten):
    lab.create("id BIGINT, p STRING, q INT", "PARTITIONED BY (p, q)", **{"format-version": "1"})
    lab.insert("(1, 'a', 1), (2, 'a', 1), (3, NULL, 1)")
    lab.insert("(1, 'a', 1), (4, 'b', NULL)")
    lab.sql("ALTER TABLE {t} DROP PARTITION FIELD p")  # v1: the field stays, and is void
    lab.insert("(1, 'a', 1), (2, 'c', 1)")
    lab.sql("ALTER TABLE {t} SET TBLPROPERTIES ('format-version'='2')")
    lab.insert("(2, 'd', 1), (9, 'd', 1)")
    scopes = lab.scopes()
    assert any(scope.partition == "[null,1]" and scope.spec_id == 1 for scope in scopes)
    for scope in scopes:
        foreign.delete([1], {"id": 1}, scope=scope)
    assert len(lab.rows()) == 6
    for scope in scopes:
        rewritten(scope)
    lab.sql("ALTER TABLE {t} SET TBLPROPERTIES ('format-version'='3')")
    for scope in scopes:
        foreign.delete([1], {"id": 2}, scope=scope)
    assert sum(masked(rewritten(scope)) for scope in scopes if "a" in scope.partition) == 1
    assert len(lab.rows()) == 3


def test_a_branch_is_rewritten_and_main_is_left_alone(lab, rewritten):
    lab.create("id BIGINT", **{"write.delete.mode": "merge-on-read"})
    lab.sql("INSERT INTO {t} SELECT id FROM range(0, 20, 1, 1)")
    lab.sql("ALTER TABLE {t} CREATE BRANCH side")
    lab.sql("INSERT INTO {t}.branch_side SELECT id FROM range(20, 40, 1, 1)")
    lab.sql("DELETE FROM {t}.branch_side WHERE id % 5 = 0")
    lab.insert("(99)")
    main = lab.table().head_id("main")
    result = rewritten(ref="side")
    assert masked(result) == 8
    assert len(lab.rows(ref="side")) == 32
    assert lab.table().head_id("main") == main


def test_a_spec_whose_fields_are_all_void_is_global(foreign, lab, rewritten):
    lab.create("id BIGINT, p STRING", "PARTITIONED BY (p)", **{"format-version": "1"})
    lab.insert("(1, 'a'), (2, 'b')")
    lab.sql("ALTER TABLE {t} DROP PARTITION FIELD p")
    lab.sql("ALTER TABLE {t} SET TBLPROPERTIES ('format-version'='2')")
    lab.insert("(1, 'a'), (3, 'b')")
    lab.insert("(1, 'a'), (4, NULL)")
    void = next(scope for scope in lab.scopes() if scope.spec_id == 1)
    assert void.partition == "[]"
    foreign.delete([1], {"id": 1})
    assert len(lab.rows()) == 3
    assert masked(rewritten(void)) == 2
    old = [scope for scope in lab.scopes() if scope.spec_id == 0]
    assert [masked(rewritten(scope)) for scope in old] == [1, 0]  # the delete is global
    live = live_files(lab.table(), lab.table().head_id("main"))
    assert {file.spec_id for file in live.data} == {0, 1}
    assert live.deletes == ()
