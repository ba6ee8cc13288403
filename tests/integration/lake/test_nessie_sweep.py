"""What nobody can have is swept, though Nessie says `gc.enabled=false` of every table; what another
branch has, or may have, is not."""

from __future__ import annotations

import uuid
from typing import Any

import pytest
from firnline_domain.commits.conflicts import output_files
from firnline_domain.commits.output_lifetimes import Lifetimes
from firnline_domain.errors import StorageUnreachable
from firnline_domain.records.results import RewriteFinished
from firnline_iceberg.removal.removal import sent_path
from firnline_iceberg.removal.sweep import OutputSweeper, Swept

from tests.kit.lake.table import Table
from tests.kit.lake_pair import Pair, now_ms
from tests.kit.nessie import Nessie

pytestmark = [pytest.mark.stack, pytest.mark.long]
LIVES = Lifetimes()


@pytest.fixture
def table(lake: Pair) -> Table:
    namespace = f"n{uuid.uuid4().hex[:8]}"
    lake.namespace(namespace)
    made = lake.table(namespace)
    made.fill()
    return made


def swept_later(table: Table) -> Swept:
    """A day later, by every clock."""
    tables = table.tables
    later_ms = now_ms() + 2 * LIVES.sweep_ms
    sweeper = OutputSweeper(tables, lambda: later_ms, LIVES.sweep_ms, lambda _: later_ms)
    return sweeper.sweep(table.name)


def paths(result: RewriteFinished) -> list[str]:
    return [file.path for file in output_files(result)]


def test_outputs_that_no_commit_has_named_are_swept(lake: Pair, table: Table) -> None:
    """The worker's result was lost, or refused before anything was sent."""
    result = lake.rewrite(table.order())
    assert all(map(table.exists, paths(result)))
    swept = swept_later(table)
    assert set(paths(result)) <= set(swept.removed)
    assert swept.lists == [result.output_list]
    assert not any(map(table.exists, [*paths(result), result.row_map, result.output_list]))
    assert table.rows() == [(key, key) for key in range(4)]


def test_a_refused_result_that_was_not_sent_is_swept(lake: Pair, table: Table) -> None:
    result = lake.rewrite(table.order())
    for file in {file.path for group in result.groups for file in group.inputs}:
        table.remove(file)
    (event,) = lake.commit(result)
    assert event.reason == "inputs_gone"
    assert set(paths(result)) <= set(swept_later(table).removed)


def test_what_another_branch_has_is_not_swept(
    lake: Pair, table: Table, nessie: Nessie, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The commit landed, the committer died before it cleared up; `dev` was made of it, `main` was
    moved back. On `main` nothing names the outputs."""
    result = lake.rewrite(table.order())
    before = nessie.hash_of("main")
    monkeypatch.setattr("firnline_iceberg.removal.removal.remove_unneeded", lambda *_: 0)
    (event,) = lake.commit(result)
    assert type(event).__name__ == "RewriteCommitted"
    nessie.branch(f"dev{uuid.uuid4().hex[:8]}")
    nessie.assign("main", before)
    swept = swept_later(table)
    assert swept.removed == []
    assert swept.skipped_by_reason == {"sent": 1}
    assert all(map(table.exists, paths(result)))


def test_a_commit_of_unknown_outcome_is_noted_before_it_is_sent(
    lake: Pair, table: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    result = lake.rewrite(table.order())
    seen: list[bool] = []
    commit = lake.commits.commit

    def watched(*args: Any, **kwargs: Any) -> Any:
        seen.append(table.exists(sent_path(result.output_list or "")))
        return commit(*args, **kwargs)

    monkeypatch.setattr(lake.commits, "commit", watched)
    lake.commit(result)
    assert seen == [True]
    assert not table.exists(sent_path(result.output_list or ""))
    assert not table.exists(result.output_list)


def test_what_cannot_be_noted_is_not_sent(
    lake: Pair, table: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    result, head = lake.rewrite(table.order()), table.head

    def away(*_: Any) -> None:
        raise OSError("503 SlowDown")

    monkeypatch.setattr("firnline_iceberg.removal.removal.note_sent", away)
    with pytest.raises(StorageUnreachable, match="SlowDown"):
        lake.commit(result)
    assert table.head == head
