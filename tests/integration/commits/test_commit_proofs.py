"""A result that does not balance is never committed, whatever has happened to it on its way."""

from __future__ import annotations

from typing import Any

import pytest
from firnline_adapters.records import codec as records
from firnline_domain.base.values import replace
from firnline_domain.records.events import GroupProof
from firnline_domain.records.parts.conflict_reasons import ConflictReason
from firnline_domain.records.results import KeyChecksums, RewriteFinished

from tests.kit.lake.checks import files, handled

pytestmark = pytest.mark.stack
Table = Any  # tests.kit.lake.scenario.CommitScenario
Committer = Any  # firnline_committer.handlers.CommitterHandlers
KEYS = KeyChecksums((1,), "0000000000000005", "0000000000000007", "fffffffffffffffe")


def two_groups(table: Table, keys: KeyChecksums | None) -> RewriteFinished:
    table.append((1, 1), (2, 1))
    table.append((3, 1))
    table.delete_ids(1)
    made: RewriteFinished = table.rewrite(groups=2)
    groups = tuple(replace(group, keys=keys) for group in made.groups)
    assert len(groups) == 2
    return replace(made, groups=groups)


def test_the_event_carries_the_proof_of_every_group(table: Table, committer: Committer) -> None:
    result = two_groups(table, KEYS)
    event = handled(committer, result)
    assert event.proofs == tuple(
        GroupProof(group.rows_in, group.rows_masked, group.rows_out, KEYS)
        for group in result.groups
    )
    numbers = [(proof.rows_in, proof.rows_masked, proof.rows_out) for proof in event.proofs]
    assert sorted(numbers) == [(1, 0, 1), (2, 1, 1)]
    assert records.RecordCodec().decode(records.encode_record(event)) == event


def test_results_of_older_workers_stand_on_their_rows(table: Table, committer: Committer) -> None:
    event = handled(committer, two_groups(table, None))
    assert [proof.keys for proof in event.proofs] == [None, None]
    assert table.rows() == [(2, 1), (3, 1)]


@pytest.mark.parametrize(
    "wrong",
    [
        {"keys": replace(KEYS, rows_out="fffffffffffffffd")},
        {"rows_masked": 1, "rows_out": 0},
    ],
)
def test_a_doctored_group_takes_the_whole_result_along(
    table: Table, committer: Committer, wrong: dict[str, Any]
) -> None:
    """Its outputs are the sweep's, as those of any loser are."""
    result = two_groups(table, KEYS)
    first, second = result.groups
    doctored = replace(result, groups=(first, replace(second, **wrong)))
    head, rows = table.loaded.head_id("main"), table.rows()
    event = handled(committer, doctored)
    assert event.reason is ConflictReason.PROOF_FAILED
    assert event.detail.startswith("group 1: ")
    assert table.loaded.head_id("main") == head
    assert table.rows() == rows
    assert all(path.exists() for path in files(result))
