"""Each try of a group writes files of names of its own."""

from __future__ import annotations

import pytest
from firnline_worker.spark.stage import GroupOrder

GROUP = GroupOrder(3, (), tuple("abcdef"))


def test_no_two_tries_share_a_name() -> None:
    names = [GROUP.names_of_try(tried, 3) for tried in range(3)]
    assert names == [("a", "b"), ("c", "d"), ("e", "f")]


def test_a_group_without_names_left_says_why() -> None:
    with pytest.raises(RuntimeError, match="group 3: 3 executors were lost"):
        GROUP.names_of_try(3, 3)
