"""Names of functions and classes: one that says nothing by itself is refused.

`tests/tools/names_allowed.txt` lists what is left: lines are removed from it and never added."""

from __future__ import annotations

import ast
import collections
from functools import cache
from pathlib import Path

from tests.tools.house_numbers import PARTICIPLE, Function, nodes_of, product_files

ROOT = Path(__file__).parents[1]
ALLOWED = frozenset((ROOT / "tests/tools/names_allowed.txt").read_text().split())


def find_names(sources: dict[str, str]) -> set[str]:
    """Return `path:function` for a participle alone (`kept`), and names of classes that several
    modules define."""
    trees = {path: ast.parse(text) for path, text in sources.items()}
    modules = collections.Counter(
        name
        for tree in trees.values()
        for name in {node.name for node in nodes_of([tree], ast.ClassDef)}
    )
    participles = {
        f"{path}:{node.name}"
        for path, tree in trees.items()
        for node in nodes_of([tree], Function)
        if PARTICIPLE.fullmatch(node.name)
    }
    return participles | {name for name, count in modules.items() if count > 1}


@cache
def names_of_product() -> set[str]:
    return find_names(
        {str(path.relative_to(ROOT)): path.read_text() for path in product_files(ROOT)}
    )


def test_a_function_is_named_by_a_verb_and_a_class_by_a_word_of_its_own() -> None:
    """Name a function by a verb and its object, and a class by a name that no module has yet."""
    assert sorted(names_of_product() - ALLOWED) == []


def test_the_allow_list_only_shrinks() -> None:
    assert sorted(ALLOWED - names_of_product()) == []


def test_planted_names_are_refused() -> None:
    planted = {"a.py": "class Page: ...\ndef kept(): ...", "b.py": "class Page: ..."}
    assert find_names(planted) == {"Page", "a.py:kept"}
