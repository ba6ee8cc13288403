"""Tables that nobody here can read: of format version 4, or with metadata that are none."""

from __future__ import annotations

import pytest
from firnline_domain.base.values import replace
from firnline_domain.errors import PoisonousRecord, TaskRefused
from firnline_domain.records.events import ChangeKind, TableCommitted
from firnline_domain.records.orders import ResyncTable
from firnline_domain.records.results import FORMAT_VERSION_4


def refusing(reason: str):
    def load(table: object):
        raise TaskRefused(reason, "ns.t is of format version 4")

    return load


@pytest.fixture
def commit(lake, rows, monkeypatch: pytest.MonkeyPatch) -> TableCommitted:
    lake.table.append(rows((1, 1)))
    [event] = lake.commits()[-1:]
    monkeypatch.setattr(lake.tables, "load", refusing(FORMAT_VERSION_4))
    return replace(event, metadata_changed=True)


def test_a_v4_table_is_told_by_its_version_and_asks_for_nothing(lake, commit) -> None:
    [change] = lake.handle(commit)
    assert (change.kind, change.format_version) == (ChangeKind.ABSOLUTE, 4)
    assert (change.snapshot_id, change.partitions) == (commit.refs[-1].snapshot_id, ())
    asked = ResyncTable(commit.table, "main", None, change.snapshot_id, "r", 1)
    [answer] = lake.handle(asked)
    assert (answer.format_version, answer.snapshot_id) == (4, change.snapshot_id)
    [answer] = lake.handle(replace(asked, wanted_snapshot_id=None))
    assert (answer.format_version, answer.snapshot_id) == (4, None)


def test_a_change_of_its_properties_alone_is_told_too(lake, commit) -> None:
    [change] = lake.handle(replace(commit, refs=(), snapshots=()))
    assert (change.ref, change.format_version) == ("main", 4)


def test_a_commit_of_v4_is_told_if_the_upgrade_was_not(lake, rows, monkeypatch) -> None:
    """The facts of the table are kept, and say another version."""
    lake.table.append(rows((1, 1)))
    [event] = lake.commits()[-1:]
    assert lake.handle(event)[0].format_version == 2
    monkeypatch.setattr(lake.tables, "load", refusing(FORMAT_VERSION_4))
    root = replace(event.snapshots[-1], manifest_list="metadata/root.parquet")
    [change] = lake.handle(replace(event, snapshots=(root,), metadata_changed=False))
    assert change.format_version == 4


def test_what_is_no_metadata_is_put_aside_with_its_reason(lake, commit, monkeypatch) -> None:
    monkeypatch.setattr(lake.tables, "load", refusing("metadata_unreadable"))
    with pytest.raises(PoisonousRecord) as poison:
        lake.handle(commit)
    assert poison.value.reason == "metadata_unreadable"
