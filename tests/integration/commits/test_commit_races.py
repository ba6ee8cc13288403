"""A lost race costs the next try a manifest list, not all manifests (docs/decisions/0011)."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace as replace_fields
from pathlib import Path
from typing import Any

import pytest
from firnline_committer.commit import committer as committing
from firnline_domain.base.values import replace
from firnline_domain.records.events import RewriteCommitted
from firnline_iceberg.java.api import rest_catalog
from firnline_iceberg.java.jvm import IcebergJvm

pytestmark = pytest.mark.stack
Table = Any  # tests.kit.lake.scenario.CommitScenario


def manifests(table: Table) -> set[Path]:
    folder = Path(table.loaded.metadata.location.removeprefix("file:"), "metadata")
    return {path for path in folder.glob("*.avro") if not path.name.startswith("snap-")}


def of_head(table: Table) -> set[Path]:
    loaded = table.loaded
    found = loaded.manifests_of(loaded.head("main"))
    return {Path("/" + one.path.removeprefix("file:").lstrip("/")) for one in found}


def committed(committer: Any, result: Any) -> None:
    (event,) = committer.handle([result])
    assert isinstance(event, RewriteCommitted), event


@pytest.mark.parametrize("version", ["2", "3"])
def test_manifests_serve_again_after_appends_and_upserts(
    make_table: Any, meddler: Any, meddled: Any, version: str
) -> None:
    table = make_table(**{"format-version": version})
    for number in range(4):
        table.append((number, number))
    table.delete_ids(1)
    result = table.rewrite()
    ours: list[set[Path]] = []
    before = manifests(table)

    def first() -> None:
        ours.append(manifests(table) - before)
        table.append((10, 10))

    meddler.before = [first, lambda: table.upsert((2, 20)), lambda: table.append((11, 11))]
    committed(meddled, result)
    assert meddler.commits == 4
    assert table.rows() == [(0, 0), (2, 20), (3, 3), (10, 10), (11, 11)]
    assert len(ours[0]) >= 5  # four that lost their file, and the new one
    loaded = table.loaded
    head = loaded.head("main")
    made = {
        one.path for one in loaded.manifests_of(head) if one.added_snapshot_id == head.snapshot_id
    }
    assert {Path(path).name for path in made} <= {path.name for path in ours[0]}
    left = manifests(table) & ours[0]
    assert {path.name for path in left} <= {Path(path).name for path in made}
    if version == "3":
        ids = [
            row_id
            for one in loaded.manifests_of(head)
            if not one.holds_deletes
            for entry in loaded.entries_of(one)
            if entry.is_live
            for row_id in range(entry.first_row_id, entry.first_row_id + entry.records)
        ]
        assert len(ids) == len(set(ids))


def test_a_manifest_that_is_gone_from_the_head_is_not_taken_for_there(
    table: Table, meddler: Any, meddled: Any
) -> None:
    table.append((1, 1))
    other = table.append((2, 2))
    table.append((3, 3))
    result = table.rewrite()
    group = result.groups[0]
    assert len(group.inputs) == 3
    table.append((4, 4))
    fourth = table.append((5, 5))
    meddler.before = [lambda: table.remove(fourth)]
    committed(meddled, result)
    assert table.rows() == [(1, 1), (2, 2), (3, 3), (4, 4)]
    assert other not in table.live_data()


def test_what_a_try_of_unknown_end_may_have_stays(
    table: Table, meddler: Any, meddled: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The refused try and the unknown one share their manifests, and only the latter may yet land
    when what the former has left is cleared away."""
    monkeypatch.setattr(committing, "MAX_ATTEMPTS", 2)
    for number in range(3):
        table.append((number, number))
    result = replace(table.rewrite(), finished_at_ms=10**15)  # young enough to be tried again
    before, ours = manifests(table), list[set[Path]]()

    def lost() -> None:
        ours.append(manifests(table) - before)
        table.append((10, 10))

    def unknown() -> None:
        meddler.fail("none", applied=False)

    def looked_at() -> None:
        assert ours[0] <= manifests(table)
        ours.append(set())

    meddler.before = [lost, unknown, looked_at]
    committed(meddled, result)
    assert (meddler.commits, len(ours)) == (3, 2)
    assert table.rows() == [(0, 0), (1, 1), (2, 2), (10, 10)]


def test_what_is_cleared_away_is_not_committed(
    table: Table, meddler: Any, meddled: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(committing, "MAX_ATTEMPTS", 2)
    for number in range(3):
        table.append((number, number))
    result = replace(table.rewrite(), finished_at_ms=10**15)  # young enough to be tried again
    meddler.before = [lambda n=n: table.append((10 + n, 0)) for n in range(3)]
    committed(meddled, result)
    assert of_head(table) <= manifests(table)
    assert table.rows() == [(0, 0), (1, 1), (2, 2), (10, 0), (11, 0), (12, 0)]


def test_many_small_manifests_are_not_merged_while_the_head_races(
    make_table: Any,
    meddler: Any,
    iceberg: IcebergJvm,
    committer_of: Any,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Iceberg would read and write them all at each try; of the property that says so nothing
    stays in the table."""
    monkeypatch.setattr(committing, "FEW_MANIFESTS", 2)
    table = make_table(**{"commit.manifest.min-count-to-merge": "2"})
    for number in range(6):
        table.append((number, number))
    result = table.rewrite()
    counts = list[int]()

    def racing() -> None:
        counts.append(len(manifests(table)))
        table.append((10, len(counts)))

    meddler.before = [racing, racing, racing]
    committed(committer_of(iceberg, meddler.uri), result)
    assert counts[2] - counts[1] == 1  # the writer's own
    assert "commit.manifest-merge.enabled" not in table.loaded.properties
    assert len(table.rows()) == 9


def test_after_lost_races_others_commits_wait(
    table: Table, meddler: Any, gateway: str, iceberg: IcebergJvm, committer_of: Any
) -> None:
    """Without it the fourth try would lose to the writer that begins in the middle of it."""
    writer = replace_fields(table, catalog=rest_catalog(iceberg.jvm, gateway))
    table.append((1, 1))
    table.append((2, 2))
    result = table.rewrite()
    ours: list[int | None] = []
    with ThreadPoolExecutor() as pool:
        begun: list[Any] = []

        def begin() -> None:
            begun.append(pool.submit(writer.append, (9, 9)))
            with suppress(TimeoutError):
                begun[0].result(1)  # time enough, if it did not have to wait
            ours.append(len(table.rows()))

        lost = [lambda n=n: table.append((10 + n, 0)) for n in range(committing.HOLD_COMMITS_AFTER)]
        meddler.before = [*lost, begin]
        committed(committer_of(iceberg, gateway), result)
        assert begun[0].result(30)
    assert ours == [2 + committing.HOLD_COMMITS_AFTER]  # it was not in the table when ours was sent
    assert len(table.rows()) == 3 + committing.HOLD_COMMITS_AFTER
