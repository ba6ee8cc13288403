"""A batch of steps counts for as much as its steps one by one."""

from __future__ import annotations

from firnline_domain.counters.fold.folding import FoldOutcome
from firnline_planner import meters
from firnline_planner.state.effects import RESYNC_REQUESTS, Effects, Output
from prometheus_client import REGISTRY

from tests.kit.counted import counted

AGES = (
    *("order_seconds_count", "order_seconds_sum"),
    *("healthy_seconds_count", "healthy_seconds_sum"),
)


def told() -> list[float]:
    return [
        counted("changes_folded"),
        counted("changes_held"),
        counted("changes_duplicate"),
        counted("orders_ended", outcome="lost"),
        counted("budget_byte_seconds"),
        counted("records_written", topic=RESYNC_REQUESTS),
        counted("resyncs"),
        counted("records_read", topic="file-changes"),
        *(REGISTRY.get_sample_value(f"firnline_commit_to_{name}") or 0.0 for name in AGES),
    ]


def test_a_batch_counts_for_as_much_as_its_steps() -> None:
    before = told()
    asking = Output(RESYNC_REQUESTS, "u", None)
    meters.count_steps(
        [
            Effects(
                verdicts=[FoldOutcome.FOLDED, FoldOutcome.PART, FoldOutcome.NOTED], outputs=[asking]
            ),
            Effects(
                verdicts=[FoldOutcome.HELD, FoldOutcome.STALE],
                outcomes=["lost"],
                spent_gb_hours=0.5,
                ages_at_order_ms=[2_000],
                ages_at_finish_ms=[9_000, 1],
            ),
            Effects(verdicts=[FoldOutcome.DUPLICATE], outcomes=["lost"], outputs=[asking]),
        ]
    )
    meters.count_read(["file-changes", "file-changes"])
    grown = [now - then for now, then in zip(told(), before, strict=True)]
    assert grown == [2, 1, 2, 2, 1.8e12, 2, 2, 2, 1, 2, 2, 9.001]
