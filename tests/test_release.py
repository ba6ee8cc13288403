"""The distribution as a stranger installs it, and what a release consists of."""

from __future__ import annotations

import ast
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tomllib
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from zipfile import ZipFile

import pytest
import yaml
from firnline_domain.version import VERSION

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
BOARDS = [*ROOT.glob("infra/observability/boards/*")]
EXTRAS = PROJECT["optional-dependencies"]
MEMBERS = [*ROOT.glob("*/src/firnline_*"), *ROOT.glob("*/*/src/firnline_[a-z]*")]
UV = (sys.executable, "-m", "uv", "--quiet", "--offline")  # `make setup` has filled its cache
# Where the import has another name.
DISTRIBUTION = {
    "faust": "faust-streaming",
    "nats": "nats-py",
    "psycopg2": "psycopg2-binary",
    "yaml": "pyyaml",
}
BROUGHT = {"requests", "multidict", "yarl"}  # by pyiceberg and aiohttp


def run(*command: str | Path) -> str:
    done = subprocess.run(
        list(map(str, command)), cwd=ROOT, text=True, capture_output=True, timeout=120
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("dist")
    run("make", "dist", f"DIST={folder}")
    [found] = folder.glob("*.whl")
    return found


def installed(wheel: Path, folder: Path, extra: str = "") -> Path:
    """The `bin` of an empty environment with the wheel."""
    run(*UV, "venv", "--python", sys.executable, folder)
    pinned = ("--constraints", ROOT / "requirements.lock")
    run(*UV, "pip", "install", "--python", folder / "bin/python", *pinned, f"{wheel}{extra}")
    return folder / "bin"


@pytest.fixture(scope="module")
def firnline(wheel: Path) -> Path:
    """The command in an environment that has the plain wheel alone."""
    return installed(wheel, wheel.parent / "plain") / "firnline"


def test_the_command_in_an_empty_environment(wheel: Path, firnline: Path) -> None:
    assert wheel.name == f"firnline-{VERSION}-py3-none-any.whl"
    assert run(firnline, "--version") == f"firnline {VERSION}\n"
    assert "explain" in run(firnline, "--help")
    # A command whose packages are not there names them.
    away = subprocess.run([firnline, "plan", "--dry-run"], text=True, capture_output=True)
    assert f"pip install 'firnline[all] @ file://{wheel}'" in away.stderr


# Stands for uv: `uv venv ... FOLDER` makes a python that prints its arguments.
FAKE_UV = """#!/bin/sh
echo "$@" >> {log}
for last; do :; done
if [ "$1" = venv ]; then
  mkdir -p "$last/bin" && printf '#!/bin/sh\\necho again "$@"\\n' > "$last/bin/python"
  chmod +x "$last/bin/python"
fi
"""


@pytest.mark.parametrize("command", ["demo", "up"])
def test_the_stack_fetches_its_packages_once(
    wheel: Path, firnline: Path, tmp_path: Path, command: str
) -> None:
    log, uv = tmp_path / "log", tmp_path / "uv"
    uv.write_text(FAKE_UV.format(log=log))
    uv.chmod(0o755)
    environment = {**os.environ, "UV": str(uv), "XDG_CACHE_HOME": str(tmp_path / "cache")}
    for _ in range(2):
        done = subprocess.run(
            [firnline, command, "--state", "here"], env=environment, text=True, capture_output=True
        )
        assert done.stdout == f"again -m firnline_cli {command} --state here\n"
    made, filled = log.read_text().splitlines()
    assert made.startswith("venv")
    assert filled.endswith(f"firnline[all] @ file://{wheel}")


def test_a_gateway_comes_without_spark(wheel: Path, tmp_path: Path) -> None:
    python = installed(wheel, tmp_path / "gateway", "[gateway]") / "python"
    run(python, "-c", "import firnline_gateway.bootstrap")
    listed = run(*UV, "pip", "freeze", "--python", python)
    assert "aiohttp==" in listed
    assert not re.search("^(pyspark|pyarrow|pyiceberg|faust-streaming)", listed, re.MULTILINE)


def test_every_data_file_is_in_the_wheel(wheel: Path) -> None:
    tracked = run("git", "ls-files", "*/src/*").splitlines()
    assert {path.partition("/src/")[2] for path in tracked} <= set(ZipFile(wheel).namelist())


def clone_repository(folder: Path) -> Path:
    """Clone HEAD with what is changed here, all committed."""
    commit = run("git", "stash", "create").strip() or run("git", "rev-parse", "HEAD").strip()
    run("git", "clone", "--quiet", "--shared", "--no-checkout", "--no-tags", ROOT, folder)
    run("git", "-C", folder, "checkout", "--quiet", "--detach", commit)
    return folder


def release(clone: Path, umask: int = 0o022) -> subprocess.CompletedProcess[str]:
    """Build it as `make release` does."""
    command = [sys.executable, clone / "infra/release.py", VERSION]
    return subprocess.run(command, umask=umask, text=True, capture_output=True, timeout=240)


def test_a_release_is_complete_and_the_same_each_time(tmp_path: Path) -> None:
    dist, again = (clone_repository(tmp_path / name) / "dist" for name in ("one", "another"))
    done = release(dist.parent)
    assert done.returncode == 0, done.stderr
    assert release(again.parent, umask=0o077).stdout == done.stdout
    subprocess.run(["sha256sum", "--check", "--strict", "SHA256SUMS"], cwd=dist, check=True)
    stem, checked = f"firnline-{VERSION}", done.stdout.split()[1::2]
    assert {*checked, "SHA256SUMS"} == {path.name for path in dist.iterdir()}
    assert {*checked} == {
        "RELEASE_NOTES.md",
        *(stem + ending for ending in ("-py3-none-any.whl", ".tar.gz", ".tgz", ".cdx.json")),
    }
    with tarfile.open(dist / f"{stem}.tgz") as chart:  # its alerts and boards are links
        boards = {f"firnline/files/{path.parent.name}/{path.name}" for path in BOARDS}
        assert {*chart.getnames()} >= {"firnline/Chart.yaml", "firnline/files/alerts.yaml"} | boards
        assert all(one.isfile() for one in chart)
    with tarfile.open(dist / f"{stem}.tar.gz") as sdist:  # uv asks for each member of the workspace
        members = run("git", "ls-files", "*pyproject.toml").splitlines()
        assert {f"{stem}/{path}" for path in members} <= {*sdist.getnames()}
    notes = (dist / "RELEASE_NOTES.md").read_text()
    assert notes.startswith("- **")
    assert notes in (ROOT / "CHANGELOG.md").read_text()
    components = json.loads((dist / f"{stem}.cdx.json").read_text())["components"]
    scopes = {one["name"]: one["scope"] for one in components}
    assert scopes["click"] == "required"
    assert scopes["pyspark"] == scopes["iceberg-aws-bundle"] == "optional"
    assert scopes["pytest"] == "excluded"


def test_a_release_says_each_reason_against_it(tmp_path: Path) -> None:
    clone = clone_repository(tmp_path / "clone")
    run("git", "-C", clone, "tag", f"v{VERSION}")
    stated = ["libs/domain/src/firnline_domain/version.py", "infra/helm/firnline/Chart.yaml"]
    for path in (*stated, "CHANGELOG.md"):
        text = (clone / path).read_text()
        (clone / path).write_text(text.replace(VERSION, "9.9.9"))
    done = release(clone)
    assert done.returncode == 1
    for reason in (
        *(f"{path} says 9.9.9" for path in (*stated, "CHANGELOG.md")),
        "the work tree has changes",
        f"tag v{VERSION} exists",
    ):
        assert f"release {VERSION}: {reason}" in done.stderr
    assert not (clone / "dist").exists()


WORKFLOWS = sorted(ROOT.glob(".github/workflows/*.yml"))
ACTIONLINT = "github.com/rhysd/actionlint/cmd/actionlint@v1.7.12"


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_a_workflow_pins_its_actions_and_has_no_more_rights_than_a_job_names(path: Path) -> None:
    text = path.read_text()
    actions = re.findall(r"uses: ([^.\s].*)", text)
    assert actions
    assert [
        one for one in actions if not re.fullmatch(r"[\w/-]+@[0-9a-f]{40} # v[\d.]+", one)
    ] == []
    assert yaml.safe_load(text)["permissions"] in ({}, {"contents": "read"})


@pytest.mark.long
@pytest.mark.skipif(shutil.which("go") is None, reason="Go builds actionlint")
def test_workflows_pass_actionlint() -> None:
    run("go", "run", ACTIONLINT, "-shellcheck=", "-pyflakes=", *WORKFLOWS)


def required(names: Iterable[str]) -> set[str]:
    """Distributions that the base and these extras ask for, without versions."""
    found = set[str]()
    for text in [*PROJECT["dependencies"], *(one for name in names for one in EXTRAS[name])]:
        if inner := re.match(r"firnline\[(.*)\]", text):
            found |= required(inner[1].split(","))
        found.add(re.split(r"[<=>\[]", text)[0])
    return found


def find_imports(path: Path) -> Iterator[str]:
    """What a module imports outside of functions: `a.b` for `from a import b` as well."""
    for node in ast.parse(path.read_text()).body:
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
            yield node.module


imported = cache(lambda path: tuple(find_imports(path)))  # the services share most modules


@cache
def module_files(name: str) -> tuple[Path, ...]:
    """A module of ours with its packages; nothing for a name within one."""
    package, _, _ = name.rpartition(".")
    above = module_files(package) if package else ()
    place = Path(*name.split("."))
    ends = (place.with_suffix(".py"), place / "__init__.py")
    found = (member.parent / end for member in MEMBERS for end in ends)  # each `src`
    return (*above, *(path for path in found if path.is_file()))


@pytest.mark.parametrize("service", sorted(set(EXTRAS) - {"all", "hdfs"}))  # of no service
def test_an_extra_has_what_its_service_imports(service: str) -> None:
    folder = next(path for path in MEMBERS if path.name == f"firnline_{service}")
    todo, seen, foreign = list(folder.rglob("*.py")), set[Path](), set[str]()
    while todo:
        if (path := todo.pop()) in seen:
            continue
        seen.add(path)
        for name in imported(path):
            todo += module_files(name) if name.startswith("firnline_") else []
            foreign |= {name.partition(".")[0]} - sys.stdlib_module_names
    foreign = {name for name in foreign if not name.startswith("firnline_")}
    wanted = {DISTRIBUTION.get(name, name).replace("_", "-") for name in foreign - BROUGHT}
    assert wanted <= required([service])
