"""What the commit tests ask of a committer and of its table."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from firnline_committer.handlers import CommitterHandlers as Committer
from firnline_domain.commits import conflicts
from firnline_domain.identity import normal_path
from firnline_domain.records.events import RewriteCommitted, RewriteConflicted
from firnline_domain.records.results import RewriteFinished
from firnline_iceberg.scan.planning import live_files

from tests.kit.lake.scenario import CommitScenario, file_names_of
from tests.kit.lake.writer import local


def handled(committer: Committer, result: RewriteFinished) -> Any:
    (event,) = committer.handle([result])
    return event


def files(result: RewriteFinished) -> list[Path]:
    return [local(file.path) for file in conflicts.output_files(result)]


def rewritten(table: CommitScenario) -> RewriteFinished:
    table.append((1, 1), (2, 1))
    table.delete_ids(1)
    result: RewriteFinished = table.rewrite()
    return result


def replaces(table: CommitScenario) -> int:
    """Rewrites among the retained snapshots."""
    operations = [one.summary.operation.value for one in table.loaded.snapshots]
    return operations.count("replace")


def committed(
    table: CommitScenario, committer: Committer, result: RewriteFinished
) -> RewriteCommitted:
    """Commit; the visible rows stay as they are, and nothing of ours is left lying about."""
    before = table.rows()
    event = committed_meanwhile(table, committer, result)
    assert table.rows() == before
    return event


def committed_meanwhile(
    table: CommitScenario, committer: Committer, result: RewriteFinished
) -> RewriteCommitted:
    """The same, while writers go on."""
    (event,) = committer.handle([result])
    assert isinstance(event, RewriteCommitted), event
    assert leftovers(table, result if event.groups_lost else None) == []
    return event


def refused(
    table: CommitScenario, committer: Committer, result: RewriteFinished
) -> RewriteConflicted:
    before, head = table.rows(), table.head
    (event,) = committer.handle([result])
    assert isinstance(event, RewriteConflicted), event
    assert (table.rows(), table.head) == (before, head)
    assert leftovers(table, result) == []
    return event


def leftovers(table: CommitScenario, refused: RewriteFinished | None = None) -> list[str]:
    """Files of ours on storage that are in no snapshot of the table; what was refused waits for
    the sweep."""
    loaded = table.loaded
    found = [live_files(loaded, one.snapshot_id) for one in loaded.snapshots]
    live = {file.normal_path for one in found for file in (*one.data, *one.deletes)}
    waiting = file_names_of(refused)
    ours = local(loaded.metadata.location).rglob("firnline-*")
    left = [str(path) for path in ours if path.name not in waiting]
    return sorted(path for path in left if normal_path(f"file:{path}") not in live)
