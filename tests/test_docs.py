"""What a person can set, read or watch is in the documentation, and its links lead somewhere."""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from firnline_adapters.observability.metric_list import DEAD, METRICS
from firnline_cli.__main__ import COMMANDS, main
from firnline_console.text.labels import ENDS
from firnline_domain.policy.table_action.registry import TABLE_ACTIONS
from firnline_standalone import previews

from tests.tools.reference.pages import BLOCKS, generated

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
README = (ROOT / "README.md").read_text()
PAGES = [*ROOT.glob("*.md"), *sorted(DOCS.rglob("*.md")), ROOT / "bench/results/README.md"]
SOURCES = [
    *ROOT.glob("schemas/src/**/*.py"),
    *ROOT.glob("*/*/src/**/*.py"),
    *(path for path in ROOT.glob("tests/**/*.py") if path != Path(__file__)),
]
CODE = "\n".join(path.read_text() for path in [*SOURCES, ROOT / "docker-compose.yml"])
SERVICES = ("gateway", "enricher", "planner", "worker", "committer", "console")


def title(page: Path) -> str:
    return str(page.relative_to(ROOT))


@pytest.mark.parametrize("page", sorted(DOCS.glob("reference/*.md")), ids=title)
def test_the_reference_is_what_the_code_says(page: Path) -> None:
    text = page.read_text()
    assert text == generated(text), "make docs-reference"
    assert re.findall(r"^.*\| +\|$", text, re.MULTILINE) == [], "a meaning is missing"


CODE_OF_A_REASON = re.compile(r"[a-z][a-z0-9]*(?:_[a-z0-9]+)*")


def find_refusals(trees: list[ast.Module]) -> set[str]:
    """Find the classes that are made with a reason code, by their names and bases."""
    names = {"TaskRefused", "PoisonousRecord", "Skipped", "UnsupportedFile", "AccessDenied"}
    names |= {"NeedsOperator", "CommitRejected"}
    classes = [node for tree in trees for node in ast.walk(tree) if isinstance(node, ast.ClassDef)]
    for _ in range(3):
        names |= {one.name for one in classes if names & {*map(ast.unparse, one.bases)}}
    return names


def find_returned(tree: ast.AST) -> Iterator[ast.expr]:
    """Find what functions return as the first of two texts: a code and a message."""
    for function in ast.walk(tree):
        returns = getattr(function, "returns", None)
        if returns is not None and "tuple[str, str]" in ast.unparse(returns):
            for node in ast.walk(function):
                if isinstance(node, ast.Return) and isinstance(node.value, ast.Tuple):
                    yield node.value.elts[0]


def reasons_in(tree: ast.AST, refusals: set[str]) -> Iterator[str]:
    """Codes, and names of constants, that refusals are made with or functions return."""
    made = [
        node.args[0]
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") in refusals and node.args
    ]
    for first in (*made, *find_returned(tree)):
        if isinstance(first, ast.Constant) and CODE_OF_A_REASON.fullmatch(str(first.value)):
            yield str(first.value)
        elif isinstance(first, ast.Name) and first.id.isupper():
            yield first.id


def codes_in(tree: ast.Module) -> Iterator[str]:
    """Codes of the enumerations of reasons; those of another enumeration are there already."""
    for one in ast.walk(tree):
        if isinstance(one, ast.ClassDef) and [*map(ast.unparse, one.bases)] == ["ReasonCode"]:
            for member in one.body:
                if isinstance(member, ast.Assign) and isinstance(member.value, ast.Tuple):
                    yield ast.unparse(member.value.elts[0]).strip("'")


def test_every_reason_that_the_code_gives_is_in_the_reference() -> None:
    page = (DOCS / "reference/codes.md").read_text()
    listed = {*re.findall(r"^\| `([a-z0-9_]+)` \|", page, re.MULTILINE)}
    texts = [path.read_text() for path in SOURCES if "src" in path.parts]
    constants = {
        name: code
        for text in texts
        for names, codes in re.findall(CONSTANTS, text, re.MULTILINE)
        for name, code in zip(names.split(", "), codes.split(", "), strict=True)
    }
    trees = [ast.parse(text) for text in texts]
    refusals = find_refusals(trees)
    codes = {constants.get(code, code) for tree in trees for code in reasons_in(tree, refusals)}
    assert {code.strip('"') for code in codes} | {*ENDS, *DEAD} <= listed
    members = {constants.get(code, code) for tree in trees for code in codes_in(tree)}
    assert members
    assert {code.strip('"') for code in members} <= listed


CONSTANTS = r'^([A-Z][A-Z_0-9]*(?:, [A-Z][A-Z_0-9]*)*) = ("[a-z_0-9]+"(?:, "[a-z_0-9]+")*)(?:  #|$)'


def test_metrics_named_in_messages_exist() -> None:
    """A remedy that names a metric which nobody scrapes sends people astray."""
    texts = (path.read_text() for path in SOURCES if "cli" in path.parts)
    named = {name for text in texts for name in re.findall(r"\bfirnline_[a-z_]+\*", text)}
    scraped = [one.prometheus_name for one in METRICS.values()]
    assert named
    assert [one for one in named if not any(name.startswith(one[:-1]) for name in scraped)] == []


def test_every_block_of_the_reference_is_on_a_page() -> None:
    found = [name for page in DOCS.glob("reference/*.md")
             for name in re.findall(r"<!-- generated: (\S+) -->", page.read_text())]  # fmt: skip
    assert sorted(found) == sorted(BLOCKS)


def test_metrics_are_named_as_they_are_scraped() -> None:
    scraped = {one.prometheus_name for one in METRICS.values()}
    unscraped = {f"firnline_{one.name}" for one in METRICS.values()} - scraped
    named = {name for one in PAGES for name in re.findall(r"\bfirnline_[a-z_]+", one.read_text())}
    assert named & unscraped == set()


def test_the_readme_names_each_service() -> None:
    assert all(re.search(rf"\bthe\s{name}\b", README) for name in SERVICES)


def anchors(page: Path) -> set[str]:
    """As GitHub makes them of headings."""
    heads = re.findall(r"^#+ (.*)$", page.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", head.lower()).replace(" ", "-") for head in heads}


@pytest.mark.parametrize("page", PAGES, ids=title)
def test_links_lead_somewhere(page: Path) -> None:
    text = re.sub(r"```.*?```", "", page.read_text(), flags=re.DOTALL)
    for path, _, anchor in re.findall(r"\]\((?!https:)([^)#\s]*)(#([^)\s]*))?\)", text):
        target = page.parent / path if path else page
        assert target.exists(), path
        assert not anchor or anchor in anchors(target), f"{path}#{anchor}"


PATHS = r"`((?:bench|docs|infra|libs|schemas|services|tests)/[\w./*-]*)`"


@pytest.mark.parametrize("page", PAGES, ids=title)
def test_files_named_anywhere_exist(page: Path) -> None:
    named = [
        path for path in re.findall(PATHS, page.read_text()) if not re.search("[A-Z]{4}", path)
    ]
    assert [path for path in named if not any(ROOT.glob(path.rstrip("/")))] == []


NAMES = (
    r"`(FIRNLINE_[A-Z_]+|firnline\.[a-z][a-z.-]+[a-z]|firnline_[a-z_]+?(?:_total)?"
    r"|[a-z]+(?:_[a-z0-9]+)+)[`={]"
)


FOREIGN = {"iceberg_tables", "read_manifests", "ssl_certfile", "ssl_keyfile"}
"""Names of other programs, and examples."""


@pytest.mark.parametrize("page", PAGES, ids=title)
def test_variables_properties_metrics_and_codes_named_anywhere_exist(page: Path) -> None:
    """So that a rename goes through the whole documentation."""
    named = set(re.findall(NAMES, page.read_text()))
    bare = {name: name.removeprefix("firnline_").removesuffix("_total") for name in named}
    unknown = {name for name in named if name not in CODE and bare[name] not in CODE}
    assert unknown - FOREIGN == set()


def test_every_page_is_in_the_index() -> None:
    index = (DOCS / "README.md").read_text()
    listed = {(DOCS / path).resolve() for path in re.findall(r"\]\(([^)#]+)", index)}
    pages = {page for page in DOCS.rglob("*.md") if page.parent.name != "decisions"}
    assert pages - listed == {DOCS / "README.md"}


def test_every_action_on_a_table_has_a_row() -> None:
    page = (DOCS / "tables/other-actions.md").read_text()
    missing = TABLE_ACTIONS.keys() - set(re.findall(r"^\| `(\w+)` \|", page, re.MULTILINE))
    assert not missing, "add a row to docs/tables/other-actions.md"


def test_every_action_on_a_table_has_a_preview() -> None:
    known = re.findall(r"case (\w+)\.name:", inspect.getsource(previews.preview))
    missing = {type(one).__name__ for one in TABLE_ACTIONS.values()} - {*known, "SnapshotExpiry"}
    assert not missing, "add a case to firnline_standalone.previews.preview, for --dry-run"


@pytest.mark.parametrize("name", COMMANDS)
def test_every_option_has_a_help_text(name: str) -> None:
    command = main.get_command(click.Context(main), name)
    assert command is not None
    options = [one for one in command.params if isinstance(one, click.Option)]
    assert [one.opts for one in options if not one.help] == []


def test_commands_named_in_the_documentation_exist() -> None:
    targets = set(re.findall(r"^([a-z][a-z-]*):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    for page in PAGES:
        text = page.read_text()
        assert set(re.findall(r"`make ([a-z-]+)", text)) <= targets, page
        assert set(re.findall(r"`firnline ([a-z][a-z-]*)", text)) <= {*COMMANDS}, page


COMMAND_LINES = r"\bfirnline ([a-z][a-z-]*)((?: +(?!#|\||`)[^\s`|#]+|\\\n)*)"


@pytest.mark.parametrize("page", PAGES, ids=title)
def test_options_named_in_the_documentation_exist(page: Path) -> None:
    context = click.Context(main, **main.context_settings)  # a command keeps its first help option
    for name, arguments in re.findall(COMMAND_LINES, page.read_text()):
        if command := main.get_command(context, name):
            known = {option for one in command.get_params(context) for option in one.opts}
            assert set(re.findall(r"(?<!\S)--[a-z][a-z0-9-]*", arguments)) <= known, (
                f"{name}{arguments}"
            )
