"""Whatever its numbers, a record is shown, and takes nothing else from the page."""

from __future__ import annotations

import msgspec
import pytest
from firnline_console.read_model.fold import fold_facts, totals_of
from firnline_domain.base.values import LAST_MOMENT, replace
from firnline_domain.records.states import TableState

from tests.examples import make
from tests.kit.extremes import EXAMPLES, extremes


@pytest.mark.parametrize("path", EXAMPLES)
def test_a_record_at_the_ends_of_its_ranges_is_folded_and_told(path: str) -> None:
    for fact in extremes(path):
        folded = fold_facts({}, [fact])
        for doc in folded.docs.values():
            if doc is not None:
                assert msgspec.json.decode(msgspec.json.encode(doc), type=type(doc)) == doc
                totals_of(doc)
        for event in folded.events:
            assert msgspec.json.encode(event)
        assert isinstance(fact, TableState) <= bool(folded.docs)


def test_an_announcement_for_the_last_moment_of_all_is_told() -> None:
    """A later one is no date: its text would be an exception, and no reader takes it."""
    fact = replace(make("snapshots_expired/refused"), begins_at_ms=LAST_MOMENT, refused_reason=None)
    [event] = fold_facts({}, [fact]).events
    assert "9999" in event.text
