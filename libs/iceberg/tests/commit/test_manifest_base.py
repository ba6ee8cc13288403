"""When the manifests of a lost try serve the next one."""

from __future__ import annotations

from dataclasses import replace

import pytest
from firnline_iceberg.commit.rewrite import ManifestBase

THEN = ManifestBase(1, 7, {"a": 3, "b": 7}, (0, 0))


def test_what_is_younger_may_come() -> None:
    now = ManifestBase(2, 9, {"a": 3, "b": 7, "c": 8, "d": 9}, (0, 0))
    assert THEN.can_serve(now)
    assert THEN.can_serve(THEN)


@pytest.mark.parametrize(
    "now",
    [
        pytest.param(ManifestBase(2, 8, {"a": 3, "c": 8}, (0, 0)), id="one is gone"),
        pytest.param(ManifestBase(2, 8, {"a": 3, "b": 7, "c": 7}, (0, 0)), id="a file as old"),
        pytest.param(ManifestBase(2, 8, {"a": 3, "b": 7, "c": 2}, (0, 0)), id="an older file"),
        pytest.param(ManifestBase(2, 8, {"a": 3, "b": 7, "c": 8}, (0, 1, 1)), id="another spec"),
        pytest.param(ManifestBase(2, 8, {"a": 3, "b": 7, "c": 8}, (0, 1)), id="another default"),
    ],
)
def test_anything_else_is_written_anew(now: ManifestBase) -> None:
    assert not THEN.can_serve(now)


def test_v1_tables_have_no_numbers_to_tell_by() -> None:
    then = replace(THEN, last_sequence_number=0, manifests={"a": 0})
    assert not then.can_serve(replace(then, manifests={"a": 0, "b": 0}))
