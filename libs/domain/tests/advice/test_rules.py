"""Each rule of advice on both sides of its limit."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from firnline_domain.advice.layout import (
    CODEC_BYTES,
    GLOBAL_DELETES,
    HUGE_TARGETS,
    POSITION_DELETE_FILES,
    SKEW_PARTITIONS,
)
from firnline_domain.advice.rules import RULES, advise
from firnline_domain.advice.snapshots import (
    FRUITLESS,
    MANIFEST_BYTES,
    MANIFESTS,
    METADATA_BYTES,
    SNAPSHOTS,
)
from firnline_domain.advice.sorting import DATA_FILES, SCANS, TARGETS
from firnline_domain.advice.workers import SLOW, WAITING_MINUTES
from firnline_domain.advice.writers import (
    COMMITS,
    CONFLICTS,
    METADATA_COMMITS,
    OVERWRITES,
)
from firnline_domain.counters.activity.filters import Use
from firnline_domain.counters.state.counters import Totals
from firnline_domain.counters.state.work import ExpiryWork, Promised
from firnline_domain.settings.table_rules import TableRule

from tests.kit.advice_input import (
    ANNOUNCED,
    NOW_MS,
    OLD,
    OVERWRITE,
    SMALL,
    TARGET,
    filtering,
    holding,
    hour,
    known,
    many,
    ordered,
    rules,
)

PROMISE = {"firnline.equality-deletes.max-age-ms": "60000"}
OWNED = (TableRule("lake.**", (("owner", "*"),), ()),)
CASES: list[tuple[str, dict[str, Any], dict[str, Any]]] = [
    ("duplicate_files", {"duplicate": "s3://lake/t/a.parquet is in it twice"}, {}),
    ("odd_numbers", {"odd_files": 1}, {"odd_files": 0}),
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
    (
        "waiting_orders",
        {"running": (ordered(1), ordered(WAITING_MINUTES))},
        {"running": (ordered(1), ordered(WAITING_MINUTES - 0.1))},
    ),
    (
        "waiting_orders",
        {"running": (ordered(WAITING_MINUTES),)},
        {"running": (ordered(WAITING_MINUTES, begun_ms=5),)},
    ),
    (  # a heartbeat has said that its result waits for the committer
        "waiting_orders",
        {"running": (ordered(WAITING_MINUTES),)},
        {"running": (ordered(WAITING_MINUTES, deadline_ms=NOW_MS + 1),)},
    ),
    (
        "slow_rewrites",
        {"hour": hour(timed=5 * SLOW, slow=SLOW, slow_ms=900, slow_expected_ms=90)},
        {"hour": hour(timed=5 * SLOW + 1, slow=SLOW, slow_ms=900, slow_expected_ms=90)},
    ),
    (
        "slow_rewrites",
        {"hour": hour(timed=SLOW, slow=SLOW, slow_ms=900, slow_expected_ms=90)},
        {"hour": hour(timed=SLOW, slow=SLOW - 1, slow_ms=900, slow_expected_ms=90)},
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
        "large_metadata",
        {"metadata_bytes": METADATA_BYTES},
        {"metadata_bytes": METADATA_BYTES - 1},
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
        "external_files",
        {"expiry_reason": "external_files"},
        {"expiry_reason": "nothing_old_enough"},
    ),
    (  # one and a half times the longest of the last orders, and 30 s
        "equality_delete_promise",
        {"settings": PROMISE, "turnaround_ms": 20_000},
        {"settings": PROMISE, "turnaround_ms": 19_999},
    ),
    (
        "equality_delete_promise",
        {"settings": PROMISE, "promised": Promised(60_000, NOW_MS - 60_000)},
        {"settings": PROMISE, "promised": Promised(60_000, NOW_MS - 59_999)},
    ),
    (
        "equality_delete_promise",
        {"settings": PROMISE, "totals": Totals(partitioned=1, unpartitioned_equality_deletes=1)},
        {"settings": {}, "totals": Totals(partitioned=1, unpartitioned_equality_deletes=1)},
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
        "broken_rules",
        {"rules": OWNED, "facts": {"owner": ()}},
        {"rules": OWNED, "facts": {"owner": ("finance",)}},
    ),
    (
        "unknown_group",
        {"settings": {"firnline.group": "etl"}},
        {"settings": {"firnline.group": "default"}},
    ),
    (
        "unknown_group",
        {"settings": {"namespace:firnline.group": "etl"}},
        {"settings": {"namespace:firnline.group": "etl", "firnline.group": ""}},
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
    [advice] = [one for one in advise(known(**over)).changed if one.rule == rule]
    assert advice.finding
    assert advice.remedy
    assert not advice.withdrawn
    assert set(advice.limits) <= set(advice.numbers)


@pytest.mark.parametrize(
    ("snapshots", "settings", "words"),
    [
        (METADATA_BYTES // 2_000 + 1, {}, "keep them less long than 120 hours"),
        (METADATA_BYTES // 2_000 + 1, {"firnline.expire.enabled": "false"}, "let Firnline expire"),
        (METADATA_BYTES // 2_000 - 1, {}, "write.metadata.previous-versions-max"),
        (None, {}, "write.metadata.previous-versions-max"),
    ],
)
def test_large_metadata_is_mended_where_it_grows(
    snapshots: int | None, settings: dict[str, str], words: str
) -> None:
    found = RULES["large_metadata"](
        known(metadata_bytes=METADATA_BYTES, snapshot_count=snapshots, settings=settings), 1.0
    )
    assert found is not None
    assert words in found.remedy


@pytest.mark.parametrize("streamed", ["true", "false"])
def test_snapshots_that_streaming_readers_hold_are_theirs(streamed: str) -> None:
    name, work = "firnline.streaming-readers", ExpiryWork(fruitless=FRUITLESS)
    held = known(oldest_snapshot_ms=OLD, expiry=work, settings={name: streamed})
    found = RULES["held_snapshots"](held, 1.0)
    assert found is not None
    assert (name in found.remedy) == (streamed == "true")


def test_every_rule_is_tested_and_has_a_row_in_the_documentation() -> None:
    assert {rule for rule, _, _ in CASES} == set(RULES)
    page = (Path(__file__).parents[4] / "docs/reference/recommendations.md").read_text()
    assert {rule for rule in RULES if f"| `{rule}` |" not in page} == set()
