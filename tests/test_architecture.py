"""The arrows of dependency, read from the source itself."""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from collections.abc import Iterator
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
MEMBERS = sorted(path.parent for path in ROOT.glob("*/pyproject.toml")) + sorted(
    path.parent for path in ROOT.glob("*/*/pyproject.toml")
)
SERVICES = {path.name for path in (ROOT / "services").iterdir() if path.is_dir()}
IMPURE = {"time", "os", "random", "socket", "subprocess", "threading", "pathlib", "uuid"}
ONLY_IN = {  # a library that exactly one place may import
    "faust": {"planner"},
    "mode": {"planner"},
    "confluent_kafka": {"adapters", "local", "cli", "planner"},
    "redis": {"adapters", "console", "worker", "local"},
}
COMPOSES = {"standalone": {"firnline_worker", "firnline_committer"}}  # docs/decisions/0044
CONNECTORS = ("Producer(", "Consumer(", "Redis(", "from_url(", "load_catalog(", "SparkSession.")


def member_name(member: Path) -> str:
    return member.name


def sources(member: Path) -> list[Path]:
    return sorted((member / "src").rglob("*.py"))


def imports(source: str) -> Iterator[str]:
    """Top-level names of everything that a module imports, at any depth."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from (alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield node.module.partition(".")[0]


def violations(name: str, source: str) -> list[str]:
    """What a module of the member `name` imports against the rules."""
    used = set(imports(source))
    own = f"firnline_{name}"
    services = {f"firnline_{service}" for service in SERVICES} - {own} - COMPOSES.get(name, set())
    found = sorted(f"imports the service {other}" for other in used & services)
    if name in {"domain", "deletes"}:
        others = {one for one in used if one.startswith("firnline_")} - {own}
        found += sorted(f"imports {one}" for one in others)
    if name == "domain":
        found += sorted(f"imports {one}" for one in used & IMPURE)
        known = {*sys.stdlib_module_names, own, "msgspec"}
        foreign = {one for one in used if one not in known}
        found += sorted(f"imports {one}, not of the standard library" for one in foreign)
    if name == "deletes":
        found += sorted(f"imports {one}" for one in used & {"pyspark", "pyiceberg", "py4j"})
    return found + sorted(
        f"imports {library}" for library in used & set(ONLY_IN) if name not in ONLY_IN[library]
    )


@pytest.mark.parametrize("member", MEMBERS, ids=member_name)
def test_imports_follow_the_arrows(member: Path) -> None:
    found = {
        str(path.relative_to(ROOT)): violations(member.name, path.read_text())
        for path in sources(member)
    }
    assert not {path: wrong for path, wrong in found.items() if wrong}


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


DOMAIN = ROOT / "libs/domain/src/firnline_domain"
BELOW = {  # packages of the domain, and those that each may import; "" = the modules beside them
    "": set[str](),
    "records": {""},
    "settings": {"", "records"},
    "counters": {"", "records", "settings"},
    "policy": {"", "records", "settings", "counters"},
    "advice": {"", "records", "settings", "counters", "policy"},
    "commits": {"", "records"},
    "ports": {"", "records"},
}


def domain_imports(name: str, source: str) -> set[str]:
    """Modules of the domain that a module imports; in both the name of the domain is left out."""
    found = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("firnline_domain"):
            package = str(node.module).removeprefix("firnline_domain").removeprefix(".")
            modules = {f"{package}.{alias.name}".removeprefix(".") for alias in node.names}
            known = {one for one in modules if (DOMAIN / f"{one.replace('.', '/')}.py").exists()}
            found |= known or {package}
    return found - {name}


def layer(module: str) -> str:
    return module if module == "ports" else module.rpartition(".")[0]


def domain_graph() -> dict[str, set[str]]:
    paths = {path.relative_to(DOMAIN).with_suffix(""): path for path in DOMAIN.rglob("*.py")}
    names = {".".join(key.parts): path for key, path in paths.items() if key.name != "__init__"}
    return {name: domain_imports(name, path.read_text()) for name, path in names.items()}


def upward(name: str, used: set[str]) -> set[str]:
    return {one for one in used if layer(one) not in {layer(name), *BELOW[layer(name)]}}


def test_packages_of_the_domain_import_only_those_below_them() -> None:
    assert not {name: up for name, used in domain_graph().items() if (up := upward(name, used))}


def test_no_modules_of_the_domain_import_each_other_in_a_circle() -> None:
    list(TopologicalSorter(domain_graph()).static_order())  # raises CycleError


def test_an_import_of_a_higher_package_is_caught() -> None:
    source = "def f():\n    from firnline_domain.policy.fleet.holds import hold_of"
    assert upward("counters.work", domain_imports("counters.work", source)) == {"policy.holds"}
    source = "from firnline_domain.policy.fleet import holds"
    assert upward("records.events", domain_imports("records.events", source)) == {"policy.holds"}


@pytest.mark.parametrize(
    ("name", "source"),
    [
        ("domain", "import time"),
        ("domain", "import pyarrow"),
        ("domain", "from firnline_adapters.kafka import client as kafka"),
        ("deletes", "import pyspark"),
        ("worker", "from firnline_planner import handlers"),
        ("adapters", "import firnline_gateway"),
        ("worker", "import faust"),
        ("iceberg", "def f():\n    import confluent_kafka"),
        ("standalone", "from firnline_planner import handlers"),
        ("demo", "from firnline_worker import handlers"),
    ],
)
def test_a_planted_violation_is_caught(name: str, source: str) -> None:
    assert violations(name, source)


@pytest.mark.parametrize("member", MEMBERS, ids=member_name)
def test_members_declare_the_members_they_import(member: Path) -> None:
    declared = tomllib.loads((member / "pyproject.toml").read_text())["project"]["dependencies"]
    known = {text.replace("-", "_") for text in declared} | {f"firnline_{member.name}"}
    used = {one for path in sources(member) for one in imports(path.read_text())}
    assert {one for one in used if one.startswith("firnline_")} <= known


@pytest.mark.parametrize("service", sorted(SERVICES - {"cli"}))
def test_every_service_has_the_same_files(service: str) -> None:
    folder = ROOT / "services" / service / "src" / f"firnline_{service}"
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


STORAGE = {  # what loads tables or makes a FileIO, and the modules that may name it
    "load_file_io": {"storage.py"},
    "_load_file_io": set(),
    "load_catalog": set(),
    "StaticTable": set(),
    "RestCatalog": {"tables.py"},
    "load_table": {"tables.py", "in_memory.py", "java.py", "commits.py"},
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


def storage_violations(library: str, file: str, source: str) -> set[str]:
    own = library == "iceberg"
    return {one for one in named(source) & set(STORAGE) if not own or file not in STORAGE[one]}


@pytest.mark.parametrize(
    "member", [one for one in MEMBERS if one.parent.name in ("libs", "services")], ids=member_name
)
def test_tables_are_loaded_in_one_place(member: Path) -> None:
    """Elsewhere a table's properties would choose the class and the server of its FileIO
    (`firnline_iceberg.storage.file_io`)."""
    found = {path: storage_violations(member.name, path.name, path.read_text())
             for path in sources(member)}  # fmt: skip
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
    assert storage_violations("enricher", "tables.py", source)


PRODUCERS = {"kafka.py", "schema_topic.py", "clients.py", "faust_driver.py"}


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
            assert path.name in PRODUCERS or not re.search(r"\b(AIOKafka)?Producer\(", source), path


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
    assert len(ways()) == 5


def test_a_step_that_nobody_calls_or_in_another_order_is_seen() -> None:
    steps = ways()["Commit to record"]
    assert broken(steps[:5] + steps[6:])  # `_record` left out
    swapped = [*steps[:4], steps[5], steps[4], *steps[6:]]
    assert broken(swapped) == [steps[4][1]]
