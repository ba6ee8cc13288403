"""Documentation, help texts and messages use the field's words: `docs/contribute/words.txt`."""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGES = [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("tests/*/README.md")]
SOURCES = [
    path
    for pattern in ("schemas/src/**/*.py", "*/*/src/**/*.py")
    for path in ROOT.glob(pattern)
    if path.relative_to(ROOT).parts[0] not in ("bench", "tests")
]
PAGE_LEFT: dict[str, int] = {
    "fragments": 1,
    "frozen": 2,
    "lane": 1,
    "parked": 1,
    "swept": 1,
}
"""How often a term is left on pages. They only shrink."""

MESSAGE_LEFT: dict[str, int] = {
    "advice": 3,
    "fleet": 13,
    "fragments": 1,
    "frozen": 1,
    "orders": 3,
    "parked": 1,
    "swept": 2,
    "unpark": 3,
    "whatever": 1,
}
"""The same for strings of the code: help texts, messages, reasons and descriptions of metrics."""


def read_terms() -> dict[str, str]:
    lines = (ROOT / "docs/contribute/words.txt").read_text().splitlines()
    return dict(line.split(" -> ") for line in lines if line and not line.startswith("#"))


TERMS = read_terms()
PATTERN = re.compile(
    rf"(?<![\w.-])(?:{'|'.join(sorted(map(re.escape, TERMS), key=len, reverse=True))})(?![\w-])",
    re.IGNORECASE,
)
NAMED = re.compile(r"```.*?```|`[^`]*`|~~.*?~~|\]\([^)]*\)|<[^>]*>|\{\w+\}", re.DOTALL)
"""Code, paths, names of numbers and examples of what not to write."""


def count_terms(text: str) -> Counter[str]:
    prose = " ".join(NAMED.sub(" ", text).split())
    return Counter(term.lower() for term in PATTERN.findall(prose))


def is_command(node: ast.AST) -> bool:
    return isinstance(node, ast.FunctionDef) and any(
        isinstance(decorator, ast.Call) and ast.unparse(decorator.func).startswith("click.")
        for decorator in node.decorator_list
    )


def find_docstrings(tree: ast.AST) -> set[int]:
    """Find constants that only readers of the code see."""
    hidden = set[int]()
    for node in ast.walk(tree):
        if not is_command(node):
            for child in ast.iter_child_nodes(node):
                if isinstance(child, ast.Expr) and isinstance(child.value, ast.Constant):
                    hidden.add(id(child.value))
    return hidden


def find_messages(source: str) -> Iterator[str]:
    """Find the strings with spaces: help texts, messages, reasons, descriptions."""
    tree = ast.parse(source)
    hidden = find_docstrings(tree)
    for node in ast.walk(tree):
        value = getattr(node, "value", None) if isinstance(node, ast.Constant) else None
        if isinstance(value, str) and " " in value.strip() and id(node) not in hidden:
            yield value


def find_too_many(places: dict[str, Counter[str]], left: dict[str, int]) -> dict[str, list[str]]:
    """Return the places of each term that is there more often than the list allows, with the word
    to write instead."""
    counts = sum(places.values(), Counter[str]())
    return {
        f"{term}: write {TERMS[term]!r}": [place for place in places if places[place][term]]
        for term in counts - Counter(left)
    }


def test_pages_use_the_words_of_the_field() -> None:
    places = {str(page.relative_to(ROOT)): count_terms(page.read_text()) for page in PAGES}
    assert find_too_many(places, PAGE_LEFT) == {}


def test_messages_use_the_words_of_the_field() -> None:
    pages = ROOT.glob("*/*/src/**/page.html")
    places = {str(page.relative_to(ROOT)): count_terms(page.read_text()) for page in pages}
    for path in SOURCES:
        if PATTERN.search(source := path.read_text()):
            counts = map(count_terms, find_messages(source))
            places[str(path.relative_to(ROOT))] = sum(counts, Counter[str]())
    assert find_too_many(places, MESSAGE_LEFT) == {}


def test_terms_that_are_left_are_on_the_list() -> None:
    assert {*PAGE_LEFT, *MESSAGE_LEFT} - {*TERMS} == set()


@pytest.mark.parametrize(
    ("text", "terms"),
    [
        ("The Fleet is dear, the orders are swept.", {"fleet", "dear", "orders", "swept"}),
        ("`fleet` and ~~for ever~~ and [x](lake.md) and fleet-wide", set()),
    ],
)
def test_a_private_term_is_seen(text: str, terms: set[str]) -> None:
    assert set(count_terms(text)) == terms


def test_help_of_a_command_is_a_message() -> None:
    source = '@click.command("x")\ndef command():\n    """Of the fleet."""\n'
    assert [*find_messages(source)] == ["Of the fleet."]
    assert [*find_messages('def one():\n    """Of the fleet."""\n')] == []
