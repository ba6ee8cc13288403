"""Print in numbers how the product's code reads: python tests/tools/house_numbers.py [--json].

The product is what lies under schemas, libs, services and infra, without tests."""

from __future__ import annotations

import ast
import collections
import json
import re
import statistics
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
PRODUCT = ("schemas", "libs", "services", "infra")
PARTICIPLE = re.compile(
    r"_?[a-z]*(ed|told|said|kept|made|given|shown|sent|left|taken|known|seen|held|found|spelt|had"
    r"|gone|heard|meant|written|put|chosen|drawn|grown|lost|met|ended)$"
)
ONE_WORD = re.compile(r"_?[a-z]+")
# A docstring that begins with one of these is no sentence.
FRAGMENT = re.compile(
    r"(Of|With|As|What|Whether|Where|Who|Why|How|When|Those|That|Which|By|From|Also|Only|None"
    r"|Without|In|Not|See)\b|The same\."
)
WIDE_FIELDS, LONG_LINES, FULL_FOLDER = 8, 50, 13

Function = ast.FunctionDef | ast.AsyncFunctionDef


def product_files(root: Path) -> list[Path]:
    return [
        path
        for top in PRODUCT
        for path in sorted((root / top).rglob("*.py"))
        if not {"tests", "__pycache__", ".venv"} & {*path.parts} and path.name != "conftest.py"
    ]


def nodes_of(trees: list[ast.Module], kind: Any) -> Iterator[Any]:
    return (node for tree in trees for node in ast.walk(tree) if isinstance(node, kind))


def percent_matching(pattern: re.Pattern[str], texts: list[str], whole: bool) -> float:
    """Return the share of the texts that match the pattern, in percent."""
    matches = pattern.fullmatch if whole else pattern.match
    return round(100 * sum(matches(text) is not None for text in texts) / max(len(texts), 1), 1)


def count_children(files: list[Path]) -> collections.Counter[Path]:
    """Return the number of modules and sub-packages of each folder."""
    folders = collections.Counter(path.parent for path in files if path.name != "__init__.py")
    for folder in list(folders):
        folders[folder] += sum(child in folders for child in folder.iterdir())
    return folders


def name_numbers(trees: list[ast.Module]) -> dict[str, object]:
    """Return the numbers about names of functions and classes, and about docstrings."""
    functions = [one for one in nodes_of(trees, Function) if not one.name.startswith("__")]
    modules = collections.Counter(
        name for tree in trees for name in {one.name for one in nodes_of([tree], ast.ClassDef)}
    )
    texts = [
        ast.get_docstring(node) or ""
        for node in nodes_of(trees, Function | ast.ClassDef | ast.Module)
    ]
    spoken = [text for text in texts if text]
    lengths = [one.end_lineno - one.lineno + 1 for one in functions]
    names = [one.name for one in functions]
    return {
        "function lines median": statistics.median(lengths),
        f"functions over {LONG_LINES} lines": sum(length > LONG_LINES for length in lengths),
        "bare participles %": percent_matching(PARTICIPLE, names, whole=True),
        "one-word functions %": percent_matching(ONE_WORD, names, whole=True),
        "fragment docstrings %": percent_matching(FRAGMENT, spoken, whole=False),
        "class names in several modules": sum(count > 1 for count in modules.values()),
        f"classes over {WIDE_FIELDS} fields": sum(
            sum(isinstance(one, ast.AnnAssign) for one in node.body) > WIDE_FIELDS
            for node in nodes_of(trees, ast.ClassDef)
        ),
    }


def house_numbers(root: Path) -> dict[str, object]:
    files = product_files(root)
    sources = [path.read_text() for path in files]
    folders = count_children(files)
    return {
        "files": len(files),
        "lines": sum(text.count("\n") for text in sources),
        "largest folder": max(folders.values()),
        f"folders over {FULL_FOLDER}": sum(count > FULL_FOLDER for count in folders.values()),
        **name_numbers([ast.parse(text) for text in sources]),
    }


if __name__ == "__main__":
    figures = house_numbers(ROOT)
    if "--json" in sys.argv:
        print(json.dumps(figures, indent=1))
    else:
        print(*(f"{name:32} {value}" for name, value in figures.items()), sep="\n")
