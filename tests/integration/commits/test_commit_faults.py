"""A catalog that fails in every way it can, before or after it has applied a commit.

Whatever is answered: never two commits, never a lost one, never a file removed that a snapshot
has, manifests included.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from firnline_domain.records.events import RewriteCommitted
from firnline_domain.records.parts.conflict_reasons import ConflictReason
from firnline_domain.records.results import RewriteFinished

pytestmark = pytest.mark.stack
Table = Any  # tests.kit.lake.scenario.CommitScenario
Meddler = Any  # tests.meddling.Meddler
Committer = Any  # firnline_committer.handlers.CommitterHandlers

ANSWERS = [500, 502, 503, 504, 409, 429, 400, "half", "none", "late"]


@pytest.fixture
def faulty(iceberg: Any, meddler: Meddler, committer_of: Any) -> Committer:
    return committer_of(iceberg, meddler.uri, patience_s=3)


def made(table: Table) -> RewriteFinished:
    """A result that has to be repaired."""
    path = table.append((1, 1), (2, 1), (3, 1))
    table.delete_ids(1)
    result: RewriteFinished = table.rewrite()
    table.delete_rows(path, 1)
    return result


def commits_of(table: Table, result: RewriteFinished) -> list[int]:
    tasks = {s.snapshot_id: s.summary.get("firnline.task-id") for s in table.loaded.snapshots}
    return [number for number, task in tasks.items() if task == result.task_id]


def gone(table: Table) -> list[str]:
    """Files of any retained snapshot that do not exist: lists, manifests, data and deletes."""
    found = []
    for snapshot in table.java.snapshots():
        io = table.java.io()
        paths = [snapshot.manifestListLocation()]
        if exists(paths[0]):
            manifests = list(snapshot.allManifests(io))
            paths += [one.path() for one in manifests]
        found += [path for path in paths if not exists(path)]
    if not found:
        found += [path for path in table.live_data() | table.live_deletes() if not exists(path)]
    return found


def orphans(table: Table) -> list[str]:
    """Manifests and lists that no retained snapshot has."""
    kept = set()
    for snapshot in table.java.snapshots():
        kept.add(snapshot.manifestListLocation())
        kept |= {one.path() for one in snapshot.allManifests(table.java.io())}
    names = {path.rsplit("/", 1)[1] for path in kept}
    folder = Path(table.loaded.metadata_location.removeprefix("file:")).parent
    return sorted(path.name for path in folder.glob("*.avro") if path.name not in names)


def known(answered: int | str, applied: bool) -> bool:
    """Whether the answer says that the request is over: else it may land later, and its manifests
    are left for the removal of orphans."""
    return applied or answered in (409, 429)


def exists(path: str) -> bool:
    return Path(path.removeprefix("file:")).exists()


@pytest.mark.parametrize("applied", [True, False], ids=["applied", "not_applied"])
@pytest.mark.parametrize("answered", ANSWERS)
def test_one_commit_whatever_is_answered(
    table: Table, faulty: Committer, meddler: Meddler, answered: int | str, applied: bool
) -> None:
    result = made(table)
    meddler.fail(answered, applied)
    (event,) = faulty.handle([result])
    assert gone(table) == []
    assert table.rows() == [(3, 1)]
    if (answered, applied) == (400, False):  # it will say so again
        assert event.reason is ConflictReason.REJECTED
        return
    assert isinstance(event, RewriteCommitted), event
    assert len(commits_of(table, result)) == 1
    if known(answered, applied):
        assert orphans(table) == []
    (again,) = faulty.handle([result])
    assert again.redelivered
    assert len(commits_of(table, result)) == 1
    assert gone(table) == []


@pytest.mark.parametrize("answered", [503, 409, "none"])
def test_the_same_fault_three_times(
    table: Table, faulty: Committer, meddler: Meddler, answered: int | str
) -> None:
    """Applied at the first, which the later ones do not say."""
    result = made(table)
    meddler.fail(answered, True)
    for _ in range(2):
        meddler.fail(answered, False)
    (event,) = faulty.handle([result])
    assert isinstance(event, RewriteCommitted), event
    assert gone(table) == []
    assert table.rows() == [(3, 1)]
    assert len(commits_of(table, result)) == 1
