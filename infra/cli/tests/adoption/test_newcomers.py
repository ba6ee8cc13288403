"""What an existing table's newest snapshot says of its debt."""

from __future__ import annotations

import pytest
from firnline_cli.adoption.newcomers import (
    Newcomer,
    Ranking,
    SnapshotTotals,
    by_manifests,
    by_summary,
    summary_of,
)
from firnline_domain.base.values import replace
from firnline_domain.identity import Scope, TableName
from firnline_domain.policy.cost.cost_benefit import list_offers
from firnline_domain.records.events import PartitionChange
from firnline_domain.records.parts.tallies import FileTally, Tally
from firnline_domain.settings.thresholds import Thresholds

from tests.kit.names import TABLE

MB = 1 << 20
LIMITS = Thresholds()


def texts(**totals: int) -> dict[str, str]:
    return {name.replace("_", "-"): str(value) for name, value in totals.items()}


def summary(**totals: int) -> SnapshotTotals:
    found = summary_of(texts(**{"total_data_files": 0, "total_files_size": 0, **totals}))
    assert found is not None
    return found


def weighed(partitioned: bool = False, version: int = 2, **totals: int) -> Newcomer:
    return by_summary(TABLE, summary(**totals), LIMITS, partitioned, version)


def part(partition: str, spec: int = 0, **tallies: Tally) -> PartitionChange:
    return PartitionChange(Scope(spec, partition), FileTally(**tallies), FileTally())


FRAGMENTS = {"total_data_files": 1000, "total_files_size": 10 * MB, "total_records": 50_000}
DELETES = {"total_delete_files": 300, "total_equality_deletes": 1_000_000}


def test_of_one_partition_the_summary_weighs_what_the_manifests_do() -> None:
    fragments = Tally(1000, 50_000, 10 * MB)
    told = weighed(**FRAGMENTS, **DELETES)
    deletes = Tally(300, 1_000_000)
    exact = by_manifests(TABLE, [part("[]", fragments=fragments, equality_deletes=deletes)], LIMITS)
    assert told == exact
    assert told.exact
    assert (told.data_files, told.delete_files, told.equality_deletes) == (1000, 300, 1_000_000)


def test_the_weight_is_the_gain_by_which_the_policy_ranks() -> None:
    holds = FileTally(fragments=Tally(1000, 50_000, 10 * MB))
    gain = list_offers(holds, LIMITS.target_bytes)[0].gain
    for rate in (1.0, 7.0):
        read = replace(LIMITS, reads_per_hour=rate)
        told = by_summary(TABLE, summary(**FRAGMENTS), read, False, 2)
        assert told.weight == pytest.approx(rate * gain)


def test_a_table_that_is_only_to_be_watched_comes_last() -> None:
    watched = Thresholds(enabled=False)
    assert by_summary(TABLE, summary(**FRAGMENTS), watched, False, 2).weight == 0
    assert by_summary(TABLE, None, watched, False, 2).weight == 0
    holds = part("[]", fragments=Tally(1000, 1, 1))
    assert by_manifests(TABLE, [holds], watched).weight == 0


def test_files_of_the_target_size_weigh_nothing() -> None:
    good = weighed(total_data_files=100, total_files_size=100 * 512 * MB)
    assert (good.weight, good.exact) == (0, True)
    assert weighed().weight == 0


def test_equality_deletes_weigh_more_than_as_many_fragments_without() -> None:
    assert weighed(**FRAGMENTS, **DELETES).weight > weighed(**FRAGMENTS).weight


def test_delete_files_of_both_kinds_are_shared_out_by_their_records() -> None:
    both = {**FRAGMENTS, **DELETES, "total_position_deletes": 1_000_000}
    halves = part(
        "[]",
        fragments=Tally(1000, 50_000, 10 * MB),
        equality_deletes=Tally(150, 1_000_000),
        position_deletes=Tally(150, 1_000_000),
    )
    assert weighed(**both).weight == by_manifests(TABLE, [halves], LIMITS).weight


def test_vectors_are_not_taken_for_files_that_reach_all() -> None:
    large = {"total_data_files": 100, "total_files_size": 100 * 512 * MB, "total_records": 10**8}
    positions = {"total_delete_files": 1, "total_position_deletes": 100_000}
    vectors = weighed(version=3, **large, **positions)
    assert vectors.weight > weighed(version=2, **large, **positions).weight > 0


@pytest.mark.parametrize(
    "said",
    [
        {},
        {"total-data-files": "3"},
        {"total-data-files": "-3", "total-files-size": "1"},
        {"total-data-files": "9" * 5_000, "total-files-size": "1"},
        {"total-data-files": "many", "total-files-size": "1"},
    ],
)
def test_without_totals_the_manifests_have_to_say_it_first(said: dict[str, str]) -> None:
    assert summary_of(said) is None
    unknown = by_summary(TABLE, None, LIMITS, False, 2)
    assert (unknown.weight, unknown.exact) == (float("inf"), False)


def test_how_deletes_are_spread_over_partitions_is_not_told() -> None:
    spread = weighed(partitioned=True, **FRAGMENTS, **DELETES, changed_partition_count=4)
    assert not spread.exact
    assert spread.weight < weighed(**FRAGMENTS, **DELETES).weight
    assert weighed(partitioned=True, **FRAGMENTS).exact


def test_fragments_beside_large_files_are_expected_where_the_newest_are_small() -> None:
    """900 files of the target size and 1,000 of 1 MB: large ones on average."""
    mixed = {"total_data_files": 1900, "total_files_size": (900 * 512 + 1000) * MB}
    told = weighed(**mixed, added_data_files=2, added_files_size=2 * MB)
    assert not told.exact
    merged = FileTally(fragments=Tally(1000, 0, 1000 * MB), on_target=Tally(900, 0, 900 * 512 * MB))
    gain = list_offers(merged, LIMITS.target_bytes)[0].gain * LIMITS.reads_per_hour
    assert told.weight == pytest.approx(gain, rel=0.01)
    large = weighed(**mixed, added_data_files=2, added_files_size=1024 * MB)
    assert large.weight < told.weight / 5  # their mean is below half of the target: a merge of all


def test_of_partitions_the_worst_one_counts() -> None:
    fine = part("[1]", on_target=Tally(9, 900, 9 * 512 * MB))
    bad = part("[2]", fragments=Tally(500, 1, 5 * MB))
    both = by_manifests(TABLE, [fine, bad], LIMITS)
    assert both.weight == by_manifests(TABLE, [bad], LIMITS).weight > 0
    assert both.data_files == 509


def test_deletes_of_an_unpartitioned_spec_reach_the_other_partitions() -> None:
    data = part("[1]", spec=1, on_target=Tally(9, 900, 9 * 512 * MB))
    everywhere = part("[]", equality_deletes=Tally(40, 1000))
    assert by_manifests(TABLE, [data], LIMITS).weight == 0
    assert by_manifests(TABLE, [data, everywhere], LIMITS).weight > 0


def newcomer(name: str, weight: float) -> Newcomer:
    return Newcomer(TableName(name, ("db",), name), 1, 1, 0, 0, weight)


def test_the_worst_comes_first_and_of_equals_the_earlier() -> None:
    ranking = Ranking()
    for name, weight in (("a", 1.0), ("b", 9.0), ("c", 1.0), ("d", float("inf"))):
        ranking.add(newcomer(name, weight))
    assert ranking.pop_worst().table.name == "d"
    ranking.add(newcomer("d", 0.5))
    assert [ranking.pop_worst().table.name for _ in range(len(ranking))] == ["b", "a", "c", "d"]
