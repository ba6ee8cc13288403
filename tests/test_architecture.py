"""What import-linter cannot say of the architecture, read from the source itself."""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from collections import defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
MEMBERS = sorted(path.parent for path in ROOT.glob("*/pyproject.toml")) + sorted(
    path.parent for path in ROOT.glob("*/*/pyproject.toml")
)
SERVICES = sorted(path.parent for path in ROOT.glob("services/*/pyproject.toml"))
MAX_CHILDREN = 13
CONNECTORS = ("Producer(", "Consumer(", "Redis(", "from_url(", "load_catalog(", "SparkSession.")


def member_name(member: Path) -> str:
    return member.name


def sources(member: Path) -> list[Path]:
    return sorted((member / "src").rglob("*.py"))


def module(path: Path) -> str:
    """The dotted name of a source file."""
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[parts.index("src") + 1 :]).removesuffix(".__init__")


def imports(source: str) -> Iterator[str]:
    """Top-level names of everything that a module imports, at any depth."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from (alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield node.module.partition(".")[0]


def crowded(modules: Iterable[str]) -> dict[str, int]:
    """Packages with more than MAX_CHILDREN modules and packages in them."""
    children = defaultdict[str, set[str]](set)
    for name in modules:
        parts = name.split(".")
        for depth in range(1, len(parts)):
            children[".".join(parts[:depth])].add(parts[depth])
    found = {package: len(names) for package, names in children.items()}
    return {package: count for package, count in found.items() if count > MAX_CHILDREN}


def test_no_package_has_more_children_than_one_finds_at_a_glance() -> None:
    assert crowded(module(path) for member in MEMBERS for path in sources(member)) == {}


def test_a_crowded_package_is_caught() -> None:
    assert crowded(f"firnline_x.part.module{number}" for number in range(14)) == {
        "firnline_x.part": 14
    }


def foreign(source: str) -> set[str]:
    """What a module of the domain imports that is neither ours nor of the standard library."""
    return set(imports(source)) - {*sys.stdlib_module_names, "firnline_domain", "msgspec"}


def test_the_domain_imports_the_standard_library_alone() -> None:
    """Which of its modules are impure is in the import contracts (pyproject.toml)."""
    found = {module(path): foreign(path.read_text()) for path in sources(ROOT / "libs/domain")}
    assert not {name: names for name, names in found.items() if names}
    assert foreign("def f():\n    import pyarrow") == {"pyarrow"}


def test_no_test_module_is_longer_than_400_lines() -> None:
    found = [
        *ROOT.glob("tests/**/*.py"),
        *ROOT.glob("*/tests/**/*.py"),
        *ROOT.glob("*/*/tests/**/*.py"),
    ]
    assert [str(path) for path in found if len(path.read_text().splitlines()) > 400] == []


def test_one_module_of_the_domain_knows_what_its_values_are_made_of() -> None:
    found = {path.name for path in sources(ROOT / "libs/domain") if "msgspec" in path.read_text()}
    assert found == {"values.py"}


@pytest.mark.parametrize("member", MEMBERS, ids=member_name)
def test_members_declare_the_members_they_import(member: Path) -> None:
    declared = tomllib.loads((member / "pyproject.toml").read_text())["project"]["dependencies"]
    own = {path.name for path in (member / "src").iterdir()}
    known = {text.replace("-", "_") for text in declared} | own
    used = {one for path in sources(member) for one in imports(path.read_text())}
    assert {one for one in used if one.startswith("firnline_")} <= known


@pytest.mark.parametrize("service", SERVICES, ids=member_name)
def test_every_service_has_the_same_files(service: Path) -> None:
    folder = service / "src" / f"firnline_{service.name}"
    names = {"__main__", "settings", "bootstrap", "handlers"}  # a module, or a package
    assert names <= {path.stem for path in folder.iterdir()}


@pytest.mark.parametrize("member", MEMBERS, ids=member_name)
def test_nothing_connects_at_import(member: Path) -> None:
    """Statements that run at import build no client."""
    for path in sources(member):
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, ast.Assign | ast.AnnAssign | ast.Expr):
                text = ast.unparse(node)
                assert not any(sign in text for sign in CONNECTORS), f"{path}: {text}"


TABLE = "firnline_iceberg.table"
STORAGE = {  # what loads tables or makes a FileIO, and the modules that may name it
    "load_file_io": {"firnline_iceberg.storage.file_io"},
    "_load_file_io": set(),
    "load_catalog": set(),
    "StaticTable": set(),
    "RestCatalog": {f"{TABLE}.catalog_client"},
    "load_table": {
        f"{TABLE}.catalog_client",
        *("firnline_iceberg.java.api", "firnline_iceberg.commit.java_commits"),
    },
    "FsspecFileIO": set(),
}


def named(source: str) -> set[str]:
    """Every name that a module imports, reads or looks up in something."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Name):
            found.add(node.id)
        elif isinstance(node, ast.Attribute):
            found.add(node.attr)
        elif isinstance(node, ast.ImportFrom):
            found.update(alias.name for alias in node.names)
    return found


def storage_violations(name: str, source: str) -> set[str]:
    return {one for one in named(source) & set(STORAGE) if name not in STORAGE[one]}


@pytest.mark.parametrize(
    "member",
    [one for one in MEMBERS if one.parent.name in ("libs", "services") or one.name == "cli"],
    ids=member_name,
)
def test_tables_are_loaded_in_one_place(member: Path) -> None:
    """Elsewhere a table's properties would choose the class and the server of its FileIO
    (`firnline_iceberg.storage.file_io`)."""
    found = {path: storage_violations(module(path), path.read_text()) for path in sources(member)}
    assert not {path: names for path, names in found.items() if names}


@pytest.mark.parametrize(
    "source",
    [
        "from pyiceberg.io import load_file_io",
        "import pyiceberg.io as io\nio.load_file_io({})",
        "def f(catalog):\n    return catalog.load_table('db.t')",
        "from pyiceberg.table import StaticTable",
    ],
)
def test_another_place_that_loads_tables_is_caught(source: str) -> None:
    assert storage_violations("firnline_enricher.tables", source)


PRODUCERS = {
    *("firnline_adapters.kafka.client", "firnline_adapters.kafka.schema_topic"),
    "firnline_cli.checks.kafka",
    *("firnline_planner.drivers.kafka.clients", "firnline_planner.drivers.faust.driver"),
}


def unplaced(source: str) -> list[str]:
    """Calls that hand a record to a Kafka client and leave its partition to the client (partitioner
    hazard, H17)."""
    calls = (node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Call))
    return [
        ast.unparse(call)
        for call in calls
        if isinstance(call.func, ast.Attribute)
        and (call.func.attr == "produce" or ast.unparse(call.func) == "producer.send")
        and len(call.args) < 4  # topic, value, key, partition
        and not any(word.arg == "partition" for word in call.keywords)
    ]


def test_every_producer_says_the_partition_itself() -> None:
    """tests/contract/test_partitions.py has what comes of it else."""
    for member in MEMBERS:
        for path in sources(member):
            source = path.read_text()
            assert unplaced(source) == [], path
            made = re.search(r"\b(AIOKafka)?Producer\(", source)
            assert made is None or module(path) in PRODUCERS, path


def test_a_record_without_a_partition_is_seen() -> None:
    assert unplaced("self._producer.produce(topic, value, key, on_delivery=told)")
    assert unplaced("await producer.send(topic, value, key)")
    assert not unplaced("producer.produce(topic, value, key, place)")


WAY = re.compile(r"^\d+\. (thread |task )?`([\w.]+)`", re.MULTILINE)
MAX_STEPS = 12


def ways() -> dict[str, list[tuple[bool, str]]]:
    """Title -> its steps as the page of code paths lists them; True if a step begins a chain."""
    page = (ROOT / "docs/contribute/code-paths.md").read_text()
    parts = [part.partition("\n") for part in page.split("\n## ")[1:]]
    return {title: [(bool(a), b) for a, b in WAY.findall(rest)] for title, _, rest in parts}


def function(dotted: str) -> ast.FunctionDef | ast.AsyncFunctionDef:
    """`package.module.Class.method`, or `package.module.function`."""
    names = dotted.split(".")
    for cut in range(len(names) - 1, 1, -1):
        for path in ROOT.glob(f"*/*/src/{'/'.join(names[:cut])}.py"):
            node: ast.AST = ast.parse(path.read_text())
            for name in names[cut:]:
                body: list[ast.stmt] = getattr(node, "body", [])
                node = next((one for one in body if getattr(one, "name", None) == name), ast.Pass())
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                return node
    raise AssertionError(f"there is no {dotted}: correct docs/contribute/code-paths.md")


def first_use(caller: ast.AST, name: str) -> int | None:
    """The line where a function is first called, or handed to somebody who calls it."""
    found = [
        node.lineno
        for node in ast.walk(caller)
        if (isinstance(node, ast.Name) and node.id == name)
        or (isinstance(node, ast.Attribute) and node.attr == name)
    ]
    return min(found, default=None)


def broken(steps: list[tuple[bool, str]]) -> list[str]:
    """Steps that no step before them in their chain uses, or that are used in another order."""
    found, chain = list[str](), list[ast.AST]()
    last_line: dict[int, int] = {}  # of a caller, by its place in the chain
    for begins, dotted in steps:
        name, node = dotted.rpartition(".")[2], function(dotted)
        if begins:
            chain, last_line = [], {}
        uses = [(at, first_use(one, name)) for at, one in reversed([*enumerate(chain)])]
        at, line = next(((at, line) for at, line in uses if line is not None), (-1, None))
        if chain and (line is None or line < last_line.get(at, 0)):
            found.append(dotted)
        if line is not None:
            last_line[at] = line
        chain.append(node)
    return found


@pytest.mark.parametrize("title", ways())
def test_a_way_through_the_code_is_as_its_page_says(title: str) -> None:
    steps = ways()[title]
    assert 5 <= len(steps) <= MAX_STEPS
    assert broken(steps) == []


def test_every_service_of_the_way_is_on_one() -> None:
    assert len(ways()) == 6


def test_a_step_that_nobody_calls_or_in_another_order_is_seen() -> None:
    steps = ways()["Commit to record"]
    assert broken(steps[:6] + steps[7:])  # `_record_at_once` left out
    swapped = [*steps[:5], steps[6], steps[5], *steps[7:]]
    assert broken(swapped) == [steps[5][1]]
