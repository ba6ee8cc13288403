"""Which table it is: catalog, prefix and uuid as one text."""

from __future__ import annotations

from itertools import combinations, product

import pytest
from firnline_domain.identity import (
    TableName,
    bucket_of,
    canonical_prefix,
    is_catalog_name,
    split_name,
    task_id,
)

UUIDS = ("u", "u@lake", "u@lake+dev", "u@archive", "u@lake+a+b", "u+dev")
CATALOGS = ("lake", "archive", "lake-dev")
PREFIXES = ("", "dev", "main%7Csecond", "a/b", "a%2Fb", "a%2Bb", "%40archive", "a%1Fb")


def table(uuid: str, catalog: str = "lake", prefix: str = "", name: str = "t") -> TableName:
    return TableName(uuid, ("shop",), name, catalog, prefix)


def test_no_two_tables_have_one_key_whatever_a_uuid_looks_like() -> None:
    every = [table(*which) for which in product(UUIDS, CATALOGS, PREFIXES)]
    for one, other in combinations(every, 2):
        assert one.key != other.key, (one, other)


def test_a_key_is_short_where_it_can_be_and_holds_nothing_that_others_put_behind() -> None:
    assert table("u").key == "u"
    for catalog, prefix in product(CATALOGS, PREFIXES):
        key = table("u", catalog, prefix).key
        assert not set(key) & set("/:\x1f\0"), key


def test_a_name_is_no_part_of_it() -> None:
    assert table("u", name="t").key == table("u", name="renamed").key


def test_tables_with_one_uuid_have_tasks_and_buckets_of_their_own() -> None:
    keys = [table("u", prefix=prefix).key for prefix in PREFIXES]
    assert len({task_id(key, "main", "s", "merge", 7) for key in keys}) == len(keys)
    assert len({bucket_of(key, 1_000) for key in keys}) > 1


@pytest.mark.parametrize(
    ("raw", "canonical"),
    [
        ("main|second", "main%7Csecond"),
        ("main%7csecond", "main%7Csecond"),
        ("/catalogs/1234/", "catalogs/1234"),
        ("a%2fb", "a%2Fb"),
        ("a%1Fb", "a%1Fb"),
        ("a b", "a%20b"),
        ("ä", "%C3%A4"),
        ("", ""),
    ],
)
def test_a_prefix_has_one_spelling(raw: str, canonical: str) -> None:
    assert canonical_prefix(raw) == canonical
    assert canonical_prefix(canonical) == canonical


def test_what_a_person_types() -> None:
    one = table("u", "lake", "main%7Csecond")
    assert one.full_name == "lake/main%7Csecond:shop.t"
    assert split_name(one.full_name) == (one.catalog_path, one.dotted_name)
    assert split_name("lake/main|second:shop.t") == (one.catalog_path, one.dotted_name)
    assert split_name("archive:shop.t") == ("archive", "shop.t")
    assert split_name("shop.t") == ("", "shop.t")
    assert split_name("shop.a:b") == ("", "shop.a:b"), "no catalog has a dot in its name"


def test_names_of_catalogs() -> None:
    assert all(map(is_catalog_name, ("lake", "Lake_2", "a-b", "7")))
    for wrong in ("", "a b", "a/b", "a@b", "a+b", "a:b", "-a", "a.b", "ä", "a" * 64, "lake\n"):
        assert not is_catalog_name(wrong), wrong
