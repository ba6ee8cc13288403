"""Tables whose levels have dots in them are found by the name that people see."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import click
import pytest
from firnline_cli.shared.fleet import name_levels, quoted_name, table_of
from firnline_domain.errors import CatalogUnreachable, TaskRefused
from firnline_domain.identity import TableName
from firnline_iceberg.table.loaded_table import TableGone


@dataclass
class Found:
    identity: TableName


@dataclass
class Tables:
    """A catalog; `refusing`: it takes no dots in a namespace."""

    names: set[tuple[str, ...]]
    refusing: bool = False

    def load_named(self, namespace: tuple[str, ...], name: str) -> Any:
        found = TableName("u", namespace, name)
        if (*namespace, name) in self.names:
            return Found(found)
        if self.refusing and any("." in one for one in namespace):
            raise CatalogUnreachable("400")
        raise TableGone(found)


def found(names: set[tuple[str, ...]], dotted: str, refusing: bool = False) -> TableName | None:
    one = table_of(Tables(names, refusing), dotted)
    return None if one is None else one.identity


def test_a_dot_in_a_level_is_found_without_quotes() -> None:
    for name in (("ns", "Tbl-1.x y"), ("ns.Tbl-1", "x y"), ("ns", "Tbl-1", "x y")):
        one = found({name}, "ns.Tbl-1.x y", refusing="." not in name[0] and len(name) == 2)
        assert one is not None
        assert (*one.namespace, one.name) == name
        assert name_levels(quoted_name(one)) == name
    assert found({("ns", "t")}, "ns.Tbl-1.x y") is None


def test_the_plain_reading_wins_and_others_have_to_be_told_apart() -> None:
    plain, inside, above = ("a", "b", "c"), ("a", "b.c"), ("a.b", "c")
    one = found({plain, inside, above}, "a.b.c")
    assert one is not None
    assert one.namespace == ("a", "b")
    with pytest.raises(click.ClickException, match=r'a\."b\.c" and "a\.b"\.c: write it with'):
        found({inside, above}, "a.b.c")
    one = found({inside, above}, '"a.b".c')
    assert one is not None
    assert one.namespace == ("a.b",)


def test_what_is_no_name_is_said() -> None:
    with pytest.raises(click.ClickException, match="levels with dots"):
        name_levels("a..b")


def test_a_table_that_cannot_be_read_is_not_looked_for_elsewhere() -> None:
    class Refusing(Tables):
        def load_named(self, namespace: tuple[str, ...], name: str) -> Any:
            raise TaskRefused("format_version_4", "v4")

    with pytest.raises(TaskRefused):
        table_of(Refusing(set()), "a.b.c")
