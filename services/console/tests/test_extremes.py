"""Whatever its numbers, a record is shown, and takes nothing else from the page."""

from __future__ import annotations

import msgspec
import pytest
from firnline_console.folding import fold, totals_of
from firnline_domain.records.states import TableState

from tests.kit.extremes import EXAMPLES, extremes


@pytest.mark.parametrize("path", EXAMPLES)
def test_a_record_at_the_ends_of_its_ranges_is_folded_and_told(path: str) -> None:
    for fact in extremes(path):
        folded = fold({}, [fact])
        for doc in folded.docs.values():
            if doc is not None:
                assert msgspec.json.decode(msgspec.json.encode(doc), type=type(doc)) == doc
                totals_of(doc)
        for event in folded.events:
            assert msgspec.json.encode(event)
        assert isinstance(fact, TableState) <= bool(folded.docs)
