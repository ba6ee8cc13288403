"""One contract for every way to rewrite: our kernel and Iceberg's own action leave the same rows,
and these are the rows of a plain model of the writers."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from firnline_domain.errors import TaskRefused
from firnline_domain.records.results import Mode
from firnline_worker.spark.executor_delete_sets import LiveSets
from firnline_worker.spark.stage import GroupOrder, GroupRefused, GroupResult, StageOrder

from tests.kit.lake.writer import local

pytestmark = [pytest.mark.spark, pytest.mark.stack]
IDS, NAMES = [1, 2, 3, 4, None], ["a", "b", "", None]


class Model:
    """What the table must hold: rows as (id, name, v), in a list and looked at one by one."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.rows: list[tuple[Any, ...]] = []
        self.next = 0

    def some(self, most: int = 4) -> list[tuple[Any, ...]]:
        made = []
        for _ in range(self.random.randint(1, most)):
            self.next += 1
            made.append((self.random.choice(IDS), self.random.choice(NAMES), self.next))
        return made

    def step(self, lab: Any) -> None:
        """One commit of some writer."""
        kind = self.random.choice(["append", "upsert", "upsert", "composite", "positions"])
        new = self.some()
        if kind == "append":
            lab.insert(_values(new))
        elif kind == "upsert":
            self._drop(lambda row: row[0] in {key for key, _, _ in new})
            lab.equality_delete(["id"], _values([key[:1] for key in new]), rows=_values(new))
        elif kind == "composite":
            self._drop(lambda row: row[:2] in {key[:2] for key in new})
            lab.equality_delete(["id", "name"], _values([key[:2] for key in new]))
            new = []
        else:
            remainder = self.random.randint(0, 3)
            self._drop(lambda row: row[2] % 4 == remainder)
            lab.sql(f"DELETE FROM {{t}} WHERE v % 4 = {remainder}")
            new = []
        self.rows += new

    def _drop(self, dead: Any) -> None:
        self.rows = [row for row in self.rows if not dead(row)]


def _values(rows: Sequence[Sequence[Any]]) -> str:
    def text(value: Any) -> str:
        return "NULL" if value is None else repr(value)

    return ", ".join("(" + ", ".join(map(text, row)) + ")" for row in rows)


@pytest.mark.parametrize(
    ("mode", "seed"), [(Mode.NATIVE, 1), (Mode.NATIVE, 2), (Mode.NATIVE, 3), (Mode.HANDED_OVER, 1)]
)
def test_rows_are_the_models_before_and_after(lab, rewriter, mode, seed):
    lab.create("id BIGINT, name STRING, v INT", **{"write.delete.mode": "merge-on-read"})
    model = Model(seed)
    model.rows = model.some(9)
    lab.insert(_values(model.rows))
    for _ in range(7):
        model.step(lab)
    assert lab.rows() == sorted(model.rows, key=repr)
    engine = rewriter if mode is Mode.NATIVE else handing_over(rewriter)
    result = engine.rewrite(lab.order(), lambda _: None)
    assert result.mode is mode
    if mode is Mode.NATIVE:
        lab.commit(result)
    assert lab.rows() == sorted(model.rows, key=repr)


@pytest.mark.parametrize("content", ["data", "equality-deletes"])
def test_a_file_that_is_gone_is_told_as_the_tables_fault(lab, rewriter, content):
    """Whoever removed it: the worker cannot mend that, and no trace of ours says which file."""
    lab.create("id BIGINT, v INT")
    lab.insert("(1, 1), (2, 2)")
    rows = lab.stored()
    lab.equality_delete(["id"], "(1)")
    written = rows if content == "data" else lab.stored() - rows
    (gone,) = (one for one in written if one.endswith(".parquet"))
    local(gone).unlink()
    with pytest.raises(TaskRefused, match=Path(gone).name) as refused:
        rewriter.rewrite(lab.order(), lambda _: None)
    assert refused.value.reason == "unreadable_file"


class Refusing:
    """A stage that serves no file."""

    is_remote, tries = False, 1

    def run(self, name: str, order: StageOrder, groups: Sequence[GroupOrder]) -> list[GroupResult]:
        return [GroupRefused(group.index, "unreadable_file", "by this test") for group in groups]

    def remove_unused_sets(self, live: LiveSets) -> None:
        """None are sent."""


def handing_over(rewriter: Any) -> Any:
    """Everything goes to Iceberg's own action."""
    return replace(rewriter, stage=Refusing())
