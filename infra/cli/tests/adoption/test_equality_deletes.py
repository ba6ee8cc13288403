"""`firnline adopt --until-no-equality-deletes`: whom it waits for, how long, and what it tells."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest
from click.testing import CliRunner
from firnline_cli.__main__ import main
from firnline_cli.adoption.equality_deletes import (
    LOOK_S,
    EqualityDeletes,
    Gone,
    Unreadable,
    Wait,
)
from firnline_cli.adoption.report import proof_words
from firnline_cli.adoption.requests import Clock
from firnline_domain.identity import TableName

A, B, C = (TableName(name, ("n",), name) for name in "abc")


@dataclass
class World:
    """Tables whose equality deletes go after so many looks; None: never."""

    after: dict[str, int | None]
    promised: bool = True
    gone: set[str] = field(default_factory=set)
    broken: set[str] = field(default_factory=set)
    now_s: float = 0.0
    looks: dict[str, int] = field(default_factory=dict)
    told: list[tuple[str, str]] = field(default_factory=list)

    def equality_deletes(self, table: TableName) -> EqualityDeletes:
        look = self.looks[table.uuid] = self.looks.get(table.uuid, 0) + 1
        if table.uuid in self.gone:
            raise Gone("does not exist")
        if table.uuid in self.broken and look == 1:
            raise Unreadable("storage is away")
        after = self.after[table.uuid]
        files = 0 if after is not None and look > after else 3
        return EqualityDeletes(table, 7 + look, 2, 5, files, files * 10, self.promised)

    def without_equality_deletes(self, found: EqualityDeletes) -> None:
        self.told.append(("none", f"{found.table.name} {found.snapshot_id}"))

    def with_equality_deletes(self, found: EqualityDeletes) -> None:
        self.told.append(("some", f"{found.table.name} {found.files}"))

    def left_out(self, name: str, why: str) -> None:
        self.told.append(("left_out", name))

    def waiting(self, why: str) -> None:
        self.told.append(("waiting", why))

    def sleep(self, seconds: float) -> None:
        self.now_s += seconds

    def run(self, *tables: TableName, patience_s: float = 3_600) -> bool:
        return Wait(self, self, Clock(lambda: self.now_s, self.sleep), patience_s).run(tables)


def test_it_waits_until_every_table_has_none_and_looks_no_oftener_than_needed() -> None:
    world = World({"a": 0, "b": 2, "c": 1})
    assert world.run(A, B, C)
    assert world.looks == {"a": 1, "b": 3, "c": 2}
    assert [text for what, text in world.told if what == "none"] == ["a 8", "c 9", "b 10"]
    assert world.now_s == 2 * LOOK_S


def test_it_gives_up_and_says_what_is_left() -> None:
    world = World({"a": 0, "b": None})
    assert not world.run(A, B, patience_s=60)
    assert world.now_s == 60
    assert world.told[-1] == ("some", "b 3")


def test_a_table_that_cannot_be_read_proves_nothing_and_one_that_is_gone_has_none() -> None:
    world = World({"a": 0, "b": 0}, gone={"b"}, broken={"a"})
    assert world.run(A, B)
    assert world.looks["a"] == 2
    assert ("left_out", "n.b") in world.told
    once = World({"a": 0}, broken={"a"})
    assert not once.run(A, patience_s=0)  # a dry run
    assert once.told == [("some", "a 0")]


def test_who_promises_nothing_is_told_so() -> None:
    world = World({"a": 1}, promised=False)
    world.run(A)
    [why] = [text for what, text in world.told if what == "waiting"]
    assert why.startswith("1 tables have 3 equality-delete files; 1 of the tables promise nothing")


def test_a_proof_in_words() -> None:
    none, some = EqualityDeletes(A, 7, 3, 12), EqualityDeletes(A, 7, 3, 12, 2, 3_000)
    of = "of 12 delete files in 3 manifests"
    assert proof_words(none) == f"snapshot 7: 0 equality-delete files {of}"
    assert proof_words(some) == f"snapshot 7: 2 equality-delete files (3,000 keys) {of}"
    assert proof_words(EqualityDeletes(A, None)) == "no snapshot was read"


@pytest.mark.parametrize("text", ["10", "1d", "-5s", ""])
def test_a_duration_has_a_unit(text: str) -> None:
    found = CliRunner().invoke(main, ["adopt", "--all", "--give-up-after", text])
    assert found.exit_code == 2
    assert "30min" in found.output
