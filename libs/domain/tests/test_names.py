"""How names that people type are read: dots, quotes, and whatever else a catalog takes."""

from __future__ import annotations

import pytest
from firnline_domain.identity import levels_of, readings_of


@pytest.mark.parametrize(
    ("text", "levels"),
    [
        ("shop.orders", ("shop", "orders")),
        ("a.b.c.d", ("a", "b", "c", "d")),
        ('ns."Tbl-1.x y"', ("ns", "Tbl-1.x y")),
        ("`a.b`.`c``d.e`", ("a.b", "c`d.e")),
        ('"a.b"."c""d"', ("a.b", 'c"d')),
        ("ns.größe#1 %20/x", ("ns", "größe#1 %20/x")),
        ("ns.a'b", ("ns", "a'b")),
        ("NS.Select", ("NS", "Select")),
        ("🏔.表", ("🏔", "表")),
        ("orders", ("orders",)),
    ],
)
def test_a_name_is_levels(text: str, levels: tuple[str, ...]) -> None:
    assert levels_of(text) == levels


@pytest.mark.parametrize("text", ["", ".", "a.", ".a", "a..b", '""', "``.x", 'a."".b'])
def test_an_empty_level_is_none(text: str) -> None:
    with pytest.raises(ValueError, match="a name is levels"):
        levels_of(text)
    with pytest.raises(ValueError, match="a name is levels"):
        [*readings_of(text)]


@pytest.mark.parametrize("text", ['ns."a', 'ns.a"b', 'ns."a"b', "ns.`", "ns.it's", 'ns.a"b"'])
def test_quotes_that_are_none_belong_to_the_name(text: str) -> None:
    assert levels_of(text) == tuple(text.split("."))


def test_quotes_may_be_of_the_name_all_the_same() -> None:
    assert [*readings_of('ns."x"')] == [("ns", "x"), ("ns", '"x"')]


def test_a_dot_may_belong_to_a_level() -> None:
    assert [*readings_of("ns.t")] == [("ns", "t")]
    assert [*readings_of("ns.a.b")] == [("ns", "a", "b"), ("ns", "a.b"), ("ns.a", "b")]
    found = [*readings_of("a.b.c.d")]
    assert found[0] == ("a", "b", "c", "d")
    assert len(found) == len(set(found)) == 7
    assert {".".join(one) for one in found} == {"a.b.c.d"}
    assert next(readings_of('ns."a.b".c')) == ("ns", "a.b", "c")
    assert len([*readings_of(".".join("abcdefghijk"))]) == 1  # nobody tries a thousand
