"""A snapshot is ours if the fleet has signed what its summary says; its numbers are bounded."""

from __future__ import annotations

import pytest
from firnline_domain.base.values import MAX_AMOUNT
from firnline_domain.records.events import SnapshotAdded, TableChange, TableCommitted
from firnline_domain.records.parts.summaries import (
    SIGNATURE,
    TASK_ID,
    is_ours,
    number_in,
    sign_summary,
)
from firnline_domain.records.shrinking import smaller_forms
from firnline_domain.records.signing import Keyring, SigningKey

from tests.kit.names import TABLE

OLD, NEW = SigningKey("old", b"o" * 32), SigningKey("new", b"n" * 32)
KEYS, OFF = Keyring([OLD]), Keyring()
SAID = {TASK_ID: "t1,t2", "firnline.rows-repaired": "t1:5"}
SIGNED = sign_summary(SAID, "uuid", KEYS, 7)
WHOLE = {"added-records": "5", "operation-id": "x", **SIGNED}


def test_what_the_fleet_has_signed_is_ours_with_whatever_the_engine_adds() -> None:
    assert is_ours(WHOLE, "uuid", KEYS)
    assert is_ours(WHOLE, "uuid", Keyring([NEW, OLD]))  # while keys are changed


@pytest.mark.parametrize(
    "changed",
    [
        {TASK_ID: "t1,t2,t3"},
        {"firnline.rows-repaired": "t1:6"},
        {"firnline.lost-groups": "t1:0:inputs_gone"},
        {SIGNATURE: ""},
        {SIGNATURE: "old 7"},
        {SIGNATURE: "old 7 zz"},
        {SIGNATURE: "old 8 " + SIGNED[SIGNATURE].split()[2]},
        {SIGNATURE: "new 7 " + SIGNED[SIGNATURE].split()[2]},
        {SIGNATURE: 7},
        {"firnline.note": None},
        {"firnline.note": "\ud800"},
        {TASK_ID: ""},
    ],
)
def test_a_summary_that_says_something_else_is_a_strangers(changed: dict[str, str]) -> None:
    assert not is_ours({**WHOLE, **changed}, "uuid", KEYS)


def test_a_signature_holds_for_its_table_and_its_fleet_only() -> None:
    assert not is_ours(WHOLE, "another", KEYS)
    assert not is_ours(WHOLE, "uuid", Keyring([NEW]))
    unsigned = {key: text for key, text in WHOLE.items() if key != SIGNATURE}
    assert not is_ours(unsigned, "uuid", KEYS)


def test_with_signing_off_who_names_a_task_is_believed() -> None:
    assert sign_summary(SAID, "uuid", OFF, 7) == SAID
    assert is_ours(SAID, "uuid", OFF)
    assert not is_ours({"added-records": "5"}, "uuid", OFF)


def test_a_summary_that_is_made_smaller_keeps_its_signature() -> None:
    snapshot = SnapshotAdded(7, 6, 3, 1, "replace", "m", {**WHOLE, "note": "x" * 9_000})
    event = TableCommitted(
        "e", TABLE, TableChange.COMMITTED, (snapshot,), (), (), False, 1, "gateway"
    )
    shorter = next(smaller_forms(event)).snapshots[0].summary
    assert is_ours(shorter, "uuid", KEYS)
    assert "note" not in shorter


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("5", 5),
        (str(MAX_AMOUNT), MAX_AMOUNT),
        (str(MAX_AMOUNT + 1), 0),
        ("9" * 30, 0),
        ("-1", 0),
        ("NaN", 0),
        ("1e5", 0),
        ("\u0663", 0),
        (5, 5),
        (None, 0),
        (["5"], 0),
    ],
)
def test_a_count_of_a_summary_is_an_amount_or_nothing(text: str, number: int) -> None:
    assert number_in({"added-records": text}, "added-records") == number
