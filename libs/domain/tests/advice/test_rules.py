"""Each rule on both sides of its limits; when a word of advice is given and taken back."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from firnline_domain.advice.finding import Known, size
from firnline_domain.advice.habits import COMMITS, CONFLICTS, METADATA_COMMITS, OVERWRITES
from firnline_domain.advice.layout import (
    CODEC_BYTES,
    GLOBAL_DELETES,
    HUGE_TARGETS,
    POSITION_DELETE_FILES,
    SKEW_PARTITIONS,
)
from firnline_domain.advice.rules import EASE, RULES, advise
from firnline_domain.advice.snapshots import FRUITLESS, MANIFEST_BYTES, MANIFESTS, SNAPSHOTS
from firnline_domain.advice.sorting import DATA_FILES, SCANS, TARGETS, mark_of
from firnline_domain.counters.counters import PartitionCounters, TableCounters, Totals, Waiting
from firnline_domain.counters.filters import TAU_MS, Filters, Use
from firnline_domain.counters.habits import Habits, Hour
from firnline_domain.counters.spread import Spread
from firnline_domain.counters.work import ExpiryWork, Partition, Table, TableWork
from firnline_domain.identity import Scope, TableName
from firnline_domain.records.events import TableLayout
from firnline_domain.records.results import Going
from firnline_domain.records.tallies import FileTally, Tally, target_bytes_of
from firnline_domain.settings.thresholds import Thresholds, thresholds
from firnline_domain.times import DAY_MS, HOUR_MS
from firnline_domain.values import replace

NOW_MS = 1_795_000_000_000
TARGET = 8_000
TABLE = TableName("u1", ("db",), "t")


def known(
    partitions: dict[str, int] | None = None,
    settings: dict[str, str] | None = None,
    hour: Hour | None = None,
    expiry: ExpiryWork | None = None,
    filters: Filters | None = None,
    duplicate: str = "",
    expiry_reason: str = "",
    **counters: Any,
) -> Known:
    """A table with so many bytes in each partition."""
    said = {"write.target-file-size-bytes": str(TARGET), **(settings or {})}
    table = Table(
        TableCounters(TABLE, "main", known=True, settings=said, **counters),
        TableWork(
            habits=Habits(hour or Hour()),
            expiry=expiry or ExpiryWork(),
            filters=filters,
            duplicate=duplicate,
            expiry_reason=expiry_reason,
        ),
    )
    fleet = Thresholds()
    spread = Spread(target_bytes_of(said))
    every = (
        Partition(
            PartitionCounters(Scope(0, name), holds=FileTally(on_target=Tally(1, 1, held_bytes)))
        )
        for name, held_bytes in (partitions or {}).items()
    )
    assert len([*spread.through(every)]) == len(partitions or {})
    return Known(table, spread, thresholds(said, fleet), fleet, NOW_MS)


def rules(facts: Known) -> set[str]:
    return set(advise(facts).given)


def many(count: int, held_bytes: int, **more: int) -> dict[str, int]:
    return {f'["{number}"]': held_bytes for number in range(count)} | more


def hour(**counts: int) -> Hour:
    return Hour(NOW_MS - 60_000, **counts)


def holding(**kinds: int) -> Totals:
    """Totals with so many files, of a thousand bytes each."""
    tallies = {kind: Tally(files, files, files * 1_000) for kind, files in kinds.items()}
    return Totals(FileTally(**tallies), partitions=1, partitioned=1)


def filtering(
    scans: float = SCANS,
    share: float = 1.0,
    every: float = SCANS,
    *,
    data_files: int = DATA_FILES,
    held_bytes: int = int(TARGET * TARGETS),
    more: tuple[Use, ...] = (),
    ordered_by: tuple[str, ...] = (),
    partitioned_by: tuple[str, ...] = (),
) -> dict[str, Any]:
    """A table whose readers filter by `id`, and read that share of it nevertheless."""
    layout = TableLayout(ordered_by, partitioned_by)
    uses = (Use("id", scans, scans * share), *more)
    return {
        "filters": Filters(NOW_MS, every, uses, layout),
        "partitions": {"[]": held_bytes},
        "totals": holding(on_target=data_files),
    }


SMALL = TARGET // 8 - 1
OVERWRITE = {"overwrites": OVERWRITES, "replaced_records": 100, "returned_records": 90}
OLD = NOW_MS - 10 * DAY_MS  # twice the retention
ANNOUNCED = ExpiryWork(announced_ms=NOW_MS, going=Going(2, 3, 4_000))
CASES: list[tuple[str, dict[str, Any], dict[str, Any]]] = [
    ("duplicate_files", {"duplicate": "s3://lake/t/a.parquet is in it twice"}, {}),
    ("tiny_partitions", {"partitions": many(100, SMALL)}, {"partitions": many(99, SMALL)}),
    (
        "tiny_partitions",
        {"partitions": many(80, SMALL) | {f"b{n}": TARGET for n in range(20)}},
        {"partitions": many(79, SMALL) | {f"b{n}": TARGET for n in range(21)}},
    ),
    ("tiny_partitions", {"partitions": many(100, SMALL)}, {"partitions": many(100, SMALL + 1)}),
    (
        "huge_partitions",
        {"partitions": {"[]": TARGET * HUGE_TARGETS}},
        {"partitions": {"[]": TARGET * HUGE_TARGETS - 1}},
    ),
    (
        "skewed_partitions",
        {"partitions": many(99, 1_000, big=128_000 * 9)},
        {"partitions": many(99, 128_000, big=128_000 * 9)},
    ),
    (
        "skewed_partitions",
        {"partitions": many(99, 1, big=TARGET * 16)},
        {"partitions": many(99, 1, big=TARGET * 16 - 1)},
    ),
    (
        "skewed_partitions",
        {"partitions": many(SKEW_PARTITIONS, 0, big=TARGET * 16)},
        {"partitions": many(SKEW_PARTITIONS - 2, 0, big=TARGET * 16)},
    ),
    (
        "position_deletes_in_v2",
        {"format_version": 2, "totals": holding(on_target=200, position_deletes=100)},
        {"format_version": 2, "totals": holding(on_target=201, position_deletes=100)},
    ),
    (
        "position_deletes_in_v2",
        {"format_version": 2, "totals": holding(position_deletes=POSITION_DELETE_FILES)},
        {"format_version": 2, "totals": holding(position_deletes=POSITION_DELETE_FILES - 1)},
    ),
    (
        "position_deletes_in_v2",
        {"format_version": 2, "totals": holding(position_deletes=POSITION_DELETE_FILES)},
        {"format_version": 3, "totals": holding(position_deletes=POSITION_DELETE_FILES)},
    ),
    (
        "global_deletes",
        {"totals": Totals(partitioned=1, unpartitioned_equality_deletes=GLOBAL_DELETES)},
        {"totals": Totals(partitioned=1, unpartitioned_equality_deletes=GLOBAL_DELETES - 1)},
    ),
    (
        "global_deletes",
        {"totals": Totals(partitioned=1, unpartitioned_equality_deletes=GLOBAL_DELETES)},
        {"totals": Totals(partitioned=0, unpartitioned_equality_deletes=GLOBAL_DELETES)},
    ),
    (
        "file_format",
        {"settings": {"write.format.default": "ORC"}},
        {"settings": {"write.format.default": "parquet"}},
    ),
    (
        "codec",
        {
            "settings": {"write.parquet.compression-codec": "gzip"},
            "totals": holding(on_target=CODEC_BYTES // 1_000),
        },
        {
            "settings": {"write.parquet.compression-codec": "gzip"},
            "totals": holding(on_target=CODEC_BYTES // 1_000 - 1),
        },
    ),
    (
        "codec",
        {
            "settings": {"write.parquet.compression-codec": "uncompressed"},
            "totals": holding(on_target=CODEC_BYTES // 1_000),
        },
        {
            "settings": {"write.parquet.compression-codec": "snappy"},
            "totals": holding(on_target=CODEC_BYTES // 1_000),
        },
    ),
    ("missing_sort_order", filtering(), filtering(scans=SCANS - 0.01)),
    ("missing_sort_order", filtering(every=5 * SCANS), filtering(every=5 * SCANS + 0.01)),
    ("missing_sort_order", filtering(share=0.501), filtering(share=0.5)),
    ("missing_sort_order", filtering(), filtering(data_files=DATA_FILES - 1)),
    ("missing_sort_order", filtering(), filtering(held_bytes=int(TARGET * TARGETS) - 1)),
    ("missing_sort_order", filtering(ordered_by=("ts", "id")), filtering(ordered_by=("id", "ts"))),
    ("missing_sort_order", filtering(), filtering(partitioned_by=("ts", "id"))),
    (
        "missing_sort_order",
        filtering(ordered_by=("ts",), more=(Use("ts", SCANS - 0.01, 1.0),)),
        filtering(ordered_by=("ts",), more=(Use("ts", SCANS, 1.0),)),
    ),
    ("missing_sort_order", filtering(), {**filtering(), "filters": None}),
    ("frequent_commits", {"hour": hour(commits=COMMITS)}, {"hour": hour(commits=COMMITS - 1)}),
    (
        "frequent_commits",
        {"hour": hour(commits=COMMITS, added_bytes=COMMITS * SMALL)},
        {"hour": hour(commits=COMMITS, added_bytes=COMMITS * (SMALL + 1))},
    ),
    (
        "metadata_files_kept",
        {"hour": hour(commits=METADATA_COMMITS)},
        {"hour": hour(commits=METADATA_COMMITS - 1)},
    ),
    (
        "metadata_files_kept",
        {"hour": hour(commits=METADATA_COMMITS)},
        {
            "hour": hour(commits=METADATA_COMMITS),
            "settings": {"write.metadata.delete-after-commit.enabled": "true"},
        },
    ),
    (
        "copy_on_write",
        {"hour": hour(**OVERWRITE)},
        {"hour": hour(**OVERWRITE | {"overwrites": OVERWRITES - 1})},
    ),
    (
        "copy_on_write",
        {"hour": hour(**OVERWRITE)},
        {"hour": hour(**OVERWRITE | {"returned_records": 89})},
    ),
    (
        "write_conflicts",
        {"hour": hour(results=15, conflicts=CONFLICTS)},
        {"hour": hour(results=10, conflicts=CONFLICTS - 1)},
    ),
    (
        "write_conflicts",
        {"hour": hour(results=15, conflicts=CONFLICTS)},
        {"hour": hour(results=16, conflicts=CONFLICTS)},
    ),
    ("many_snapshots", {"snapshot_count": SNAPSHOTS}, {"snapshot_count": SNAPSHOTS - 1}),
    (
        "many_manifests",
        {"manifests": MANIFESTS, "manifest_bytes": MANIFESTS * MANIFEST_BYTES - MANIFESTS},
        {"manifests": MANIFESTS - 1, "manifest_bytes": 1},
    ),
    (
        "many_manifests",
        {"manifests": MANIFESTS, "manifest_bytes": MANIFESTS * MANIFEST_BYTES - 1},
        {"manifests": MANIFESTS, "manifest_bytes": MANIFESTS * MANIFEST_BYTES},
    ),
    (
        "held_snapshots",
        {"oldest_snapshot_ms": OLD, "expiry": ExpiryWork(fruitless=FRUITLESS)},
        {"oldest_snapshot_ms": OLD + 1, "expiry": ExpiryWork(fruitless=FRUITLESS)},
    ),
    (
        "held_snapshots",
        {"oldest_snapshot_ms": OLD, "expiry": ExpiryWork(fruitless=FRUITLESS)},
        {"oldest_snapshot_ms": OLD, "expiry": ExpiryWork(fruitless=FRUITLESS - 1)},
    ),
    (
        "expiry_announced",
        {"expiry_reason": "grace_period", "expiry": ANNOUNCED, "oldest_snapshot_ms": OLD},
        {"expiry_reason": "old_snapshots", "expiry": ANNOUNCED, "oldest_snapshot_ms": OLD},
    ),
    (
        "foreign_files",
        {"expiry_reason": "foreign_files"},
        {"expiry_reason": "nothing_old_enough"},
    ),
    (
        "unknown_settings",
        {"settings": {"firnline.rewrite.min-fragment": "3"}},
        {"settings": {"firnline.rewrite.min-fragments": "3"}},
    ),
    (
        "unreadable_settings",
        {"settings": {"firnline.rewrite.min-fragments": "three"}},
        {"settings": {"firnline.rewrite.min-fragments": "3"}},
    ),
    (
        "contradictory_settings",
        {"settings": {"firnline.rewrite.min-fragments": "1"}},
        {"settings": {"firnline.rewrite.min-fragments": "2"}},
    ),
    (
        "unused_amoro_settings",
        {"settings": {"self-optimizing.quota": "0.5"}},
        {"settings": {"self-optimizing.minor.trigger.file-count": "5"}},
    ),
    (
        "unknown_group",
        {"settings": {"self-optimizing.group": "etl"}},
        {"settings": {"self-optimizing.group": "default"}},
    ),
    (
        "unknown_group",
        {"settings": {"namespace:firnline.group": "etl"}},
        {"settings": {"namespace:firnline.group": "etl", "firnline.group": ""}},
    ),
    (
        "switched_off_by_amoro",
        {"settings": {"self-optimizing.enabled": "false"}},
        {"settings": {"self-optimizing.enabled": "false", "firnline.enabled": "true"}},
    ),
    (
        "switched_off_by_amoro",
        {"settings": {"namespace:self-optimizing.enabled": "false"}},
        {"settings": {"firnline.enabled": "false"}},
    ),
]


@pytest.mark.parametrize(("rule", "over", "under"), CASES)
def test_a_rule_on_both_sides_of_its_limit(
    rule: str, over: dict[str, Any], under: dict[str, Any]
) -> None:
    assert rule in rules(known(**over))
    assert rule not in rules(known(**under))


@pytest.mark.parametrize(("rule", "over", "under"), CASES)
def test_what_is_told_has_numbers_that_reach_their_limits_and_says_what_to_do(
    rule: str, over: dict[str, Any], under: dict[str, Any]
) -> None:
    [told] = [one for one in advise(known(**over)).told if one.rule == rule]
    assert told.finding
    assert told.remedy
    assert not told.withdrawn
    assert set(told.limits) <= set(told.numbers)


def test_every_rule_is_tested_and_has_a_row_in_the_documentation() -> None:
    assert {rule for rule, _, _ in CASES} == set(RULES)
    page = (Path(__file__).parents[4] / "docs/advice.md").read_text()
    assert {rule for rule in RULES if f"| `{rule}` |" not in page} == set()


def again(facts: Known, **changes: Any) -> tuple[Known, Any]:
    """The same table later, and what is told of it then."""
    before = advise(facts)
    work = replace(facts.table.work, advice=before.given)
    counters = replace(facts.table.counters, **changes)
    later = replace(facts, table=replace(facts.table, counters=counters, work=work))
    return later, advise(replace(later, now_ms=facts.now_ms + 1))


def test_a_word_is_given_once_and_again_when_its_number_has_doubled() -> None:
    facts = known(snapshot_count=1_000)
    _, same = again(facts, snapshot_count=1_999)
    assert same.told == ()
    assert same.given["many_snapshots"].since_ms == NOW_MS
    _, doubled = again(facts, snapshot_count=2_000)
    [told] = doubled.told
    assert (told.numbers["snapshots"], told.since_ms, told.at_ms) == (2_000, NOW_MS, NOW_MS + 1)


def test_a_word_is_taken_back_a_fifth_below_its_limit() -> None:
    facts = known(snapshot_count=1_000)
    _, near = again(facts, snapshot_count=int(1_000 * EASE))
    assert near.told == ()
    _, gone = again(facts, snapshot_count=int(1_000 * EASE) - 1)
    [told] = gone.told
    assert (told.rule, told.withdrawn, told.since_ms) == ("many_snapshots", True, NOW_MS)
    assert gone.given == {}


def test_another_text_is_told_again() -> None:
    facts = known(settings={"firnline.one": "1"})
    _, same = again(facts)
    assert same.told == ()
    _, other = again(facts, settings={"firnline.two": "1"})
    [told] = other.told
    assert told.finding.startswith("firnline.two is no setting")


def test_while_the_counters_may_be_wrong_nothing_is_said_or_taken_back() -> None:
    facts = known(snapshot_count=1_000)
    _, waiting = again(facts, snapshot_count=1, waiting=Waiting("gap", NOW_MS))
    assert waiting.told == ()
    assert set(waiting.given) == {"many_snapshots"}


def test_a_table_that_is_gone_takes_all_of_it_along() -> None:
    _, gone = again(known(snapshot_count=1_000), removed=True)
    assert [(one.rule, one.withdrawn) for one in gone.told] == [("many_snapshots", True)]
    assert gone.given == {}


def test_an_hour_that_is_long_over_says_nothing() -> None:
    busy = Hour(NOW_MS - 2 * HOUR_MS + 1, commits=COMMITS)
    assert "frequent_commits" in rules(known(hour=busy))
    assert rules(known(hour=replace(busy, start_ms=busy.start_ms - 1))) == set()


@pytest.mark.parametrize(
    ("settings", "remedy"),
    [
        ({}, "keep them less long than 120 hours"),
        ({"gc.enabled": "false"}, "gc.enabled=false keeps them all"),
        ({"firnline.enabled": "false"}, "nothing expires them here"),
        ({"history.expire.min-snapshots-to-keep": "1000"}, "lower history.expire.min-snap"),
    ],
)
def test_what_keeps_snapshots_decides_what_to_do(settings: dict[str, str], remedy: str) -> None:
    [told] = advise(known(settings=settings, snapshot_count=1_000)).told
    assert told.remedy.startswith(remedy)


def test_a_table_is_sorted_by_what_most_scans_filter_by() -> None:
    another = Use("a`b.c", 2 * SCANS, 2 * SCANS)
    [told] = advise(known(**filtering(every=4 * SCANS, more=(another,)))).told
    assert told.finding == (
        "50% of all scans, 40 in a day, filter by a`b.c and read 100% of 16 data files nevertheless"
    )
    assert "ALTER TABLE `db`.`t` WRITE ORDERED BY `a``b`.`c` (Spark) orders" in told.remedy
    [told] = advise(known(**filtering(ordered_by=("ts", "day")))).told
    assert "BY `id` (Spark; it replaces the order by ts, day) orders" in told.remedy


def test_a_column_that_is_advised_stays_so_while_it_is_good_enough() -> None:
    facts = known(**filtering())
    before = advise(facts)
    assert before.given["missing_sort_order"].mark == mark_of("id")

    def later(**changes: Any) -> set[str]:
        work = replace(known(**filtering(**changes)).table.work, advice=before.given)
        after = advise(replace(facts, table=replace(facts.table, work=work)))
        return {one.finding.partition(" filter by ")[2].partition(" ")[0] for one in after.told}

    another = (Use("ts", 1.5 * SCANS, 1.5 * SCANS),)
    assert later(scans=SCANS * EASE, every=5 * SCANS, more=another) == set()
    assert later(scans=SCANS * EASE - 0.01, more=another) == {"ts"}
    assert later(scans=SCANS * EASE - 0.01) == {""}  # withdrawn
    assert later(share=0.5 * EASE + 0.01) == set()
    assert later(share=0.5 * EASE) == {""}
    assert later(ordered_by=("id",)) == {""}


def test_what_nobody_filters_by_any_more_is_forgotten() -> None:
    facts = known(**filtering(scans=2 * SCANS, every=2 * SCANS))
    filters = facts.table.work.filters
    assert filters is not None
    faded_ms = filters.fades_ms(SCANS)
    assert faded_ms - NOW_MS == pytest.approx(0.693 * TAU_MS, rel=0.001)
    assert "missing_sort_order" in rules(replace(facts, now_ms=faded_ms - 2))
    assert "missing_sort_order" not in rules(replace(facts, now_ms=faded_ms))


def test_sizes() -> None:
    assert [size(one) for one in (999, 1_500, 512 * 1024**2, 2e12)] == [
        "999 bytes",
        "1.5 kB",
        "537 MB",
        "2 TB",
    ]


def test_what_is_not_known_for_the_moment_takes_no_advice_back() -> None:
    """Another branch's commit, or another's expiry: the number of snapshots is unknown, not 0."""
    unknown, told = again(known(snapshot_count=1_000), snapshot_count=None)
    assert told.told == ()
    assert "many_snapshots" in advise(unknown).given
    assert "many_snapshots" not in rules(known(snapshot_count=None))
