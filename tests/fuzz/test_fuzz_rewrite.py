"""Whatever a table has been through: Iceberg reads the same before and after our rewrite.

A failure prints how to replay it. Settings come from `make fuzz-rewrite`.
"""

from __future__ import annotations

import os
import random
import sys
import time

import pytest
from firnline_fuzz.histories import HISTORIES
from hypothesis import HealthCheck, Phase, given, seed, settings

pytestmark = [pytest.mark.spark, pytest.mark.stack, pytest.mark.timeout(0)]

EXAMPLES = 6  # of one seed
FIRST_SEEDS = (1,)  # in every `make test`
MINUTES = float(os.environ.get("FIRNLINE_FUZZ_MINUTES") or 0)
SEED = os.environ.get("FIRNLINE_FUZZ_SEED")
SHRINK = os.environ.get("FIRNLINE_FUZZ_SHRINK") != "0"


def trial(bench, number: int) -> None:
    """All examples of one seed; the first that fails is made small and shown."""

    @seed(number)
    @settings(
        max_examples=EXAMPLES,
        database=None,
        deadline=None,
        report_multiple_bugs=False,
        phases=[Phase.generate, Phase.shrink] if SHRINK else [Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(HISTORIES)
    def lives(history):
        bench.run(history)

    try:
        lives()
    finally:
        show(bench)
        if sys.exc_info()[0] is not None:
            print(f"replay: make fuzz-rewrite SEED={number}")


def show(bench) -> None:
    """What was seen so far, so that a run that tests nothing is noticed."""
    print()
    for name, count in sorted((bench.modes + bench.told).items()):
        print(f"{count:6d} {name}")


if SEED:

    def test_a_seed(fuzz_bench):
        trial(fuzz_bench, int(SEED))

elif MINUTES:

    def test_for_some_minutes(fuzz_bench):
        end = time.monotonic() + MINUTES * 60
        while time.monotonic() < end:
            number = random.SystemRandom().randrange(2**31)
            print(f"seed {number}")
            trial(fuzz_bench, number)

else:

    @pytest.mark.parametrize("number", FIRST_SEEDS)
    def test_the_first_seeds(fuzz_bench, number):
        trial(fuzz_bench, number)
        assert fuzz_bench.modes["native"] > 5
        assert fuzz_bench.modes["conversions"] > 5
