from __future__ import annotations

import pytest
from firnline_domain.base.values import replace
from firnline_domain.commits.row_count_proof import checksum_text, find_flaw
from firnline_domain.records.results import InputFile, KeyChecksums, OutputFile, RewriteGroup

KEYS = KeyChecksums((1,), "0000000000000005", "0000000000000007", "fffffffffffffffe")
GROUP = RewriteGroup(
    inputs=(InputFile("a", 1, 4, 1), InputFile("b", 2, 6, 1)),
    outputs=(OutputFile("c", 7, 1, "{}"),),
    rows_in=10,
    rows_masked=3,
    rows_out=7,
    keys=KEYS,
)


def test_what_balances_has_no_flaw_and_keys_may_be_unknown() -> None:
    """The sums wrap at 2^64: 5 - 7 is 2^64 - 2."""
    assert find_flaw([GROUP, replace(GROUP, keys=None)]) is None
    assert find_flaw([]) is None


@pytest.mark.parametrize(
    ("wrong", "reason"),
    [
        ({"rows_in": 11, "rows_masked": 4}, "rows_do_not_add_up"),
        ({"rows_masked": 4}, "rows_do_not_add_up"),
        ({"rows_out": 6, "rows_masked": 4}, "rows_do_not_add_up"),
        ({"outputs": ()}, "rows_do_not_add_up"),
        ({"keys": replace(KEYS, rows_out="fffffffffffffffd")}, "keys_do_not_add_up"),
        ({"keys": replace(KEYS, rows_masked="0000000000000000")}, "keys_do_not_add_up"),
        ({"keys": replace(KEYS, rows_in="")}, "keys_do_not_add_up"),
    ],
)
def test_every_number_counts(wrong: dict[str, object], reason: str) -> None:
    found = find_flaw([GROUP, replace(GROUP, **wrong)])  # type: ignore[arg-type]
    assert found is not None
    assert found.reason == reason
    assert found.detail.startswith("group 1: ")


def test_text_of_a_checksum() -> None:
    assert checksum_text(5) == "0000000000000005"
    assert checksum_text(-2) == checksum_text(2**64 - 2) == "fffffffffffffffe"
