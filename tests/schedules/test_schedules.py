"""All short schedules, a fixed share of longer ones, and a proof that each guard is needed.

`make schedules DEPTH=n` runs more of them; tests/schedules/README.md says what is enumerated.
"""

from __future__ import annotations

import pytest
from firnline_schedules.lab import Lab, replayed
from firnline_schedules.mutations import MUTATIONS, Mutation
from firnline_schedules.oracle import Broken
from firnline_schedules.table import KINDS
from firnline_schedules.walk import Walk

from tests.kit.long_run import mark_long

pytestmark = [pytest.mark.stack, pytest.mark.timeout(600)]
Labs = dict[str, Lab]
DEPTH, THIN = 3, 8


def run(labs: Labs, text: str) -> None:
    name, *words = text.replace(":", " ").split()
    replayed(labs[name], words)


@pytest.mark.parametrize("kind", mark_long(KINDS, but=["v3p"]))
def test_schedules(labs: Labs, kind: str) -> None:
    walk = Walk(labs[kind], DEPTH, THIN)
    walk.run()
    assert sum(walk.schedules.values()) >= 40
    assert not walk.broken, "\n".join(map(str, walk.broken))


@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda one: one.name)
def test_without_it_a_schedule_fails(labs: Labs, mutation: Mutation) -> None:
    run(labs, mutation.schedule)
    with mutation.made(), pytest.raises(Broken):
        run(labs, mutation.schedule)


def test_a_broken_schedule_says_how_to_run_it_again(labs: Labs) -> None:
    mutation = next(one for one in MUTATIONS if one.name == "moved")
    with mutation.made(), pytest.raises(Broken) as caught:
        run(labs, mutation.schedule)
    assert str(caught.value).splitlines()[0] == mutation.schedule
