"""When small manifests are rewritten."""

from __future__ import annotations

import pytest
from firnline_domain.counters.state.counters import TableCounters
from firnline_domain.counters.state.work import Table
from firnline_domain.identity import MAIN
from firnline_domain.policy.table_action.rewrite_manifests import ManifestRewrite
from firnline_domain.settings.thresholds import Thresholds, resolve_thresholds

from tests.kit.names import TABLE
from tests.kit.partitions import table_input

MB = 1 << 20


def table(manifests: int, size: int) -> Table:
    counters = TableCounters(
        TABLE, MAIN, known=True, head_snapshot_id=7, manifests=manifests, manifest_bytes=size
    )
    return Table(counters)


@pytest.mark.parametrize(
    ("manifests", "size", "asked"),
    [
        (100, MB, False),
        (101, MB, True),
        (2_000, 16_000 * MB, False),  # a large table of full ones
        (2_100, 16_000 * MB, True),
        (0, 0, False),  # not known
    ],
)
def test_as_many_more_than_full_ones_would_be(manifests: int, size: int, asked: bool) -> None:
    _, order = ManifestRewrite().plan_order(table_input(table(manifests, size), Thresholds(), 0))
    assert (order is not None) == asked


def test_the_owner_says_how_many_or_never() -> None:
    def asked(text: str) -> bool:
        limits = resolve_thresholds({"firnline.manifests.min-count": text})
        return ManifestRewrite().plan_order(table_input(table(51, MB), limits, 0))[1] is not None

    assert [asked(text) for text in ("50", "51", "0")] == [True, False, False]
