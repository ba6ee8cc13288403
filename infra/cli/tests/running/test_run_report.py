"""What a preview says of the price of its orders."""

from __future__ import annotations

import pytest
from firnline_cli.running.report import price_of
from firnline_domain.identity import Scope
from firnline_domain.records.orders import RewriteFiles, TableOrder

from tests.kit.names import TABLE


def rewrite(**numbers: float) -> RewriteFiles:
    return RewriteFiles("t", TABLE, "main", Scope(0, "[]"), "full", "x", 1, 1, 0, 0, numbers)


def action(**numbers: float) -> TableOrder:
    return TableOrder("t", TABLE, "rewrite_manifests", "x", 1, 1, 0, 0, numbers)


@pytest.mark.parametrize(
    ("orders", "said"),
    [
        ([], ""),
        ([action()], ""),
        (
            [action(price_cpu_s=3.12, price_dollars=0.000213, gain_dollars_a_day=0.0103)],
            "It would cost about 3.1 CPU s, $0.00021, and spare $0.01 a day.",
        ),
        (
            [rewrite(rewrite_cpu_s=4_000, rewrite_dollars=1_200.5, spared_dollars_a_day=0.5)] * 2,
            "It would cost about 8,000 CPU s, $2,401.00, and spare $1.00 a day.",
        ),
    ],
)
def test_what_it_would_cost_and_spare(orders: list[RewriteFiles | TableOrder], said: str) -> None:
    assert price_of(orders) == said
