"""Files that hold rows of a kind, whatever hides these, and whoever still has the files."""

from __future__ import annotations

from pathlib import Path

import pytest
from firnline_domain.errors import TaskRefused
from firnline_iceberg.removal.deleted_row_search import (
    Holder,
    HolderKind,
    find_holders,
    wanted_rows,
)

from tests.integration.worker.lab import Lab

pytestmark = [pytest.mark.spark, pytest.mark.stack]


def held(lab: Lab, where: str) -> list[Holder]:
    """Of files with rows; what manifests say is another's test."""
    table = lab.table()
    found = find_holders(table, wanted_rows(table, where))
    return [one for one in found if one.kind is not HolderKind.MANIFEST]


def test_data_files_and_the_keys_in_equality_deletes_are_found(lab: Lab) -> None:
    lab.create("id BIGINT, mail STRING", **{"write.delete.mode": "merge-on-read"})
    lab.insert("(1, 'a'), (2, 'b')")
    lab.insert("(7, 'b'), (8, 'c')")
    lab.insert("(9, 'c')")
    assert [one.rows for one in held(lab, "mail = 'b'")] == [1, 1]
    lab.equality_delete(["mail"], "('b')")
    found = held(lab, "mail = 'b'")
    data, delete = HolderKind.DATA, HolderKind.DELETE
    assert sorted((one.kind, one.rows) for one in found) == [(data, 1), (data, 1), (delete, 1)]
    assert not any(one.visible for one in found)
    # of the other column the delete file has nothing: perhaps one of its keys is of such a row
    both = held(lab, "mail = 'b' and id = 2")
    assert sorted((one.kind, one.rows) for one in both) == [(data, 1), (delete, None)]
    assert held(lab, "mail = 'x'") == []


def test_every_ref_and_snapshot_counts_and_a_renamed_column_is_the_same(lab: Lab) -> None:
    lab.create("id BIGINT, mail STRING")
    lab.insert("(1, 'a'), (2, 'b')")
    lab.sql("ALTER TABLE {t} CREATE TAG early")
    lab.sql("INSERT OVERWRITE {t} SELECT 3, 'c'")
    lab.sql("ALTER TABLE {t} RENAME COLUMN mail TO address")
    [one] = held(lab, "address = 'b'")
    assert (one.rows, one.refs, one.snapshots) == (1, ("early",), 1)
    [late] = held(lab, "address in ('c', 'd')")
    assert (late.refs, late.visible) == (("main",), True)
    with pytest.raises(TaskRefused) as refused:
        held(lab, "mail = 'b'")
    assert refused.value.reason == "unreadable_condition"


def test_what_cannot_be_told_counts_as_found(lab: Lab) -> None:
    """A column that came later has its value from nowhere in old files, but perhaps a default."""
    lab.create("id BIGINT")
    lab.insert("(1)")
    lab.sql("ALTER TABLE {t} ADD COLUMN mail STRING")
    lab.insert("(2, 'b')")
    assert sorted(str(one.rows) for one in held(lab, "mail = 'b'")) == ["1", "None"]
    [path] = [one.path for one in held(lab, "id = 2")]
    assert Path(path.removeprefix("file:")).exists()
