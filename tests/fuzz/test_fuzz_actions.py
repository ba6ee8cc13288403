"""Whatever is done to a table, and however it ends: each snapshot, branch and tag that is retained
has its rows, nothing that is needed is gone, and nothing that is not is kept for ever.

Settings come from `make fuzz-actions`. A failure prints how to replay it.
"""

from __future__ import annotations

import os
import random
import sys
import time

import pytest
from firnline_actions.trials import Ground, Trial

from tests.kit.long_run import mark_long

pytestmark = [pytest.mark.spark, pytest.mark.stack, pytest.mark.timeout(0)]

ROUNDS, FEW_ROUNDS = 10, 6  # of writers and an action
MINUTES = float(os.environ.get("FIRNLINE_ACTIONS_MINUTES") or 0)
SEED = os.environ.get("FIRNLINE_ACTIONS_SEED")


def trial(ground: Ground, seed: int, rounds: int = ROUNDS) -> None:
    one = Trial(ground, seed, rounds)
    try:
        one.live()
    finally:
        if sys.exc_info()[0] is not None:
            show(ground)
            print(" | ".join(one.script))
            print(f"replay: make fuzz-actions SEED={seed}")


def show(ground: Ground) -> None:
    """What was seen so far, so that a run that tests nothing is noticed."""
    print()
    for name, count in sorted(ground.told.items()):
        print(f"{count:6d} {name}")


if SEED:

    def test_a_seed(ground):
        trial(ground, int(SEED or 0))
        show(ground)

elif MINUTES:

    def test_for_some_minutes(ground):
        end = time.monotonic() + MINUTES * 60
        while time.monotonic() < end:
            seed = random.SystemRandom().randrange(2**31)
            print(f"seed {seed}", flush=True)
            trial(ground, seed)
        show(ground)

else:

    @pytest.mark.parametrize("seed", mark_long((1, 2), but=(1,)))
    def test_the_first_seeds(ground, seed):
        trial(ground, seed, FEW_ROUNDS)
        show(ground)
        assert ground.told["snapshots read"] > 20
        assert sum(count for name, count in ground.told.items() if name.endswith(": killed"))
