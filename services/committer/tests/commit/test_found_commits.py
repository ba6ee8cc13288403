"""What the notes of a summary say is read as far as it makes sense."""

from __future__ import annotations

import pytest
from firnline_committer.commit.found_commits import LOST_GROUPS, REPAIRED, found_commit
from firnline_domain.base.values import MAX_AMOUNT


@pytest.mark.parametrize(
    ("text", "rows"),
    [
        ("other:9,t:5", 5),
        (f"t:{MAX_AMOUNT}", MAX_AMOUNT),
        (f"t:{MAX_AMOUNT + 1}", None),
        ("t:" + "9" * 5_000, None),
        ("t:-1", None),
        ("t:nan", None),
        ("t", None),
        ("t:5:6", None),
        (",,:,t:", None),
        ("", None),
    ],
)
def test_repaired_rows_are_an_amount(text: str, rows: int | None) -> None:
    assert found_commit("t", (1,), {REPAIRED: text}).rows_repaired == rows


@pytest.mark.parametrize(
    ("text", "lost"),
    [
        ("t:0:inputs_gone,other:1:x,t:3:pin_lost", {0: "inputs_gone", 3: "pin_lost"}),
        ("t:-1:x", {}),
        ("t:one:x", {}),
        ("t:" + "9" * 5_000 + ":x", {}),
        ("t:0", {}),
        ("t:0:a:b", {}),
        ("t", {}),
        (",:", {}),
    ],
)
def test_lost_groups_are_numbers_with_a_reason(text: str, lost: dict[int, str]) -> None:
    assert found_commit("t", (1,), {LOST_GROUPS: text}).lost == lost
