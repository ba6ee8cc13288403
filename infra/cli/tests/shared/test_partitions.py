"""A partition can be named as any command has printed it."""

from __future__ import annotations

import json
from typing import Any

import click
import pytest
from firnline_cli.shared.partitions import partition_named
from firnline_domain.identity import Scope
from hypothesis import given
from hypothesis import strategies as st

VALUES = st.one_of(st.none(), st.booleans(), st.integers(), st.text(), st.floats(allow_nan=False))


@given(st.lists(st.lists(VALUES, max_size=3), min_size=1, max_size=5))
def test_whatever_is_shown_is_taken_or_said_to_be_several(rows: list[list[Any]]) -> None:
    scopes = [Scope(0, json.dumps(values)) for values in rows]
    for scope in scopes:
        assert scope.label
        assert partition_named(scope.partition, scopes, "db.t") == scope.partition
        same = {one.partition for one in scopes if one.label == scope.label}
        if len(same) == 1 and scope.label not in {one.partition for one in scopes}:
            assert partition_named(scope.label, scopes, "db.t") == scope.partition


def test_two_with_one_label_are_told_apart() -> None:
    scopes = [Scope(0, '["null"]'), Scope(0, "[null]")]
    with pytest.raises(click.ClickException, match=r"more than one.*'\[\"null\"\]', '\[null\]'"):
        partition_named("null", scopes, "db.t")
    assert partition_named("[null]", scopes, "db.t") == "[null]"


def test_a_table_without_partitions_has_one() -> None:
    assert partition_named("whole table", [Scope(0, "[]")], "db.t") == "[]"
