"""Build a release of HEAD into dist/, the same bytes each time: python infra/release.py VERSION.

Wheel, sdist, Helm chart, CycloneDX SBOM, release notes and SHA256SUMS. `make release` adds images.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import tomllib
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from importlib.metadata import requires
from pathlib import Path
from typing import Any

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[1]
DIST = ROOT / "dist"
# Where each part of a release states its version.
STATEMENTS = {
    "libs/domain/src/firnline_domain/version.py": r'VERSION = "(.*)"',
    "infra/helm/firnline/Chart.yaml": r"version: (.*)",
    "CHANGELOG.md": r"## (\d\S*)",
}


def run_git(*arguments: str) -> str:
    return subprocess.check_output(["git", *arguments], cwd=ROOT, text=True).strip()


def find_obstacles(version: str) -> Iterator[str]:
    """Yield why this version cannot be built from HEAD, and what to do."""
    for path, pattern in STATEMENTS.items():
        stated = re.search(f"^{pattern}", (ROOT / path).read_text(), re.MULTILINE)
        if stated is None or stated[1] != version:
            yield f"{path} says {stated and stated[1]}: change it, or set VERSION to it"
    if changes := run_git("status", "--porcelain"):
        yield f"the work tree has changes: commit or remove them\n{changes}"
    if run_git("tag", "--list", f"v{version}"):
        yield f"tag v{version} exists: choose another version, or delete the tag to build it again"


def export_head(folder: Path) -> None:
    """Write the files of HEAD, and no other file of the work tree."""
    archive = folder.with_suffix(".tar")
    run_git("archive", f"--output={archive}", "HEAD")
    with tarfile.open(archive) as files:
        files.extractall(folder, filter="data")


def write_archive(target: Path, folder: Path, seconds: int) -> None:
    """Write a folder, with the files that links lead to, into a .tar.gz whose bytes depend on names
    and contents only."""

    def reset(entry: tarfile.TarInfo) -> tarfile.TarInfo:
        entry.uid = entry.gid = 0
        entry.uname = entry.gname = ""
        entry.mtime, entry.mode = seconds, 0o755 if entry.mode & 0o100 else 0o644
        return entry

    with (
        target.open("wb") as file,
        gzip.GzipFile("", "wb", mtime=seconds, fileobj=file) as compressed,
        tarfile.open(fileobj=compressed, mode="w", dereference=True) as archive,
    ):
        found = os.walk(folder, followlinks=True)
        for path in sorted(Path(parent, name) for parent, _, names in found for name in names):
            archive.add(path, path.relative_to(folder.parent), filter=reset)


def build_packages(source: Path, seconds: int) -> None:
    """Build the sdist, and the wheel from it, so that the sdist contains what a wheel needs."""
    builder = [sys.executable, "-m", "uv", "build", "--quiet", "--offline", "--no-build-isolation"]
    environment = {**os.environ, "SOURCE_DATE_EPOCH": str(seconds)}
    command = [*builder, "--python", sys.executable, "--out-dir", str(DIST), str(source)]
    subprocess.run(command, env=environment, umask=0o022, check=True)
    (DIST / ".gitignore").unlink()
    [sdist] = DIST.glob("*.tar.gz")  # setuptools writes the time of the build into it
    with tarfile.open(sdist) as files:
        files.extractall(source.parent / "sdist", filter="data")
    [folder] = (source.parent / "sdist").iterdir()
    write_archive(sdist, folder, seconds)


def find_packages(requirements: Iterable[str]) -> set[str]:
    """Return the packages that requirements bring, from the environment that the lock made."""
    todo = [(one, "") for one in map(Requirement, requirements)]
    found = set[tuple[str, str]]()
    while todo:
        wanted, asked_extra = todo.pop()
        if wanted.marker and not wanted.marker.evaluate({"extra": asked_extra}):
            continue
        name = canonicalize_name(wanted.name)
        for extra in {"", *wanted.extras} - {done for package, done in found if package == name}:
            found.add((name, extra))
            todo += [(Requirement(one), extra) for one in requires(name) or ()]
    return {name for name, _ in found}


def list_packages(source: Path) -> Iterator[dict[str, Any]]:
    """Yield the packages of the lock. `excluded` is only used for development."""
    project = tomllib.loads((source / "pyproject.toml").read_text())["project"]
    extras = [one for texts in project["optional-dependencies"].values() for one in texts]
    required = find_packages(project["dependencies"])
    optional = find_packages(one for one in extras if not one.startswith("firnline["))
    lock = (source / "requirements.lock").read_text()
    for name, version in re.findall(r"^([\w.-]+)==([^\s;]+)", lock, re.MULTILINE):
        scope = "required" if name in required else "optional" if name in optional else "excluded"
        purl = f"pkg:pypi/{name}@{version}"
        yield {"name": name, "version": version, "purl": purl, "scope": scope}


def list_jars(source: Path) -> Iterator[dict[str, Any]]:
    """Yield the jars that the command `firnline` downloads, by the hashes that it checks."""
    pins = {
        tuple(line.split())
        for lock in (source / "infra/local_stack/src/firnline_local").glob("*.lock")
        for line in lock.read_text().splitlines()
    }
    for checksum, path in pins:
        *folders, name, version, file_name = path.split("/")
        group = ".".join(folders)
        classifier = file_name.removeprefix(f"{name}-{version}").removesuffix(".jar").strip("-")
        qualifier = classifier and f"?classifier={classifier}"
        yield {
            "group": group,
            "name": name,
            "version": version,
            "purl": f"pkg:maven/{group}/{name}@{version}{qualifier}",
            "scope": "optional",
            "hashes": [{"alg": "SHA-256", "content": checksum}],
        }


def write_sbom(source: Path, version: str, seconds: int) -> None:
    """Write the CycloneDX list of what the locks pin."""
    purl = f"pkg:pypi/firnline@{version}"
    components = {one["purl"]: one for one in (*list_packages(source), *list_jars(source))}
    bom = {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {
            "timestamp": datetime.fromtimestamp(seconds, UTC).isoformat(),
            "component": {
                "type": "application",
                "bom-ref": purl,
                "name": "firnline",
                "version": version,
                "purl": purl,
            },
        },
        "components": [
            {"type": "library", "bom-ref": purl, **components[purl]} for purl in sorted(components)
        ],
    }
    (DIST / f"firnline-{version}.cdx.json").write_text(json.dumps(bom, indent=1) + "\n")


def write_notes(source: Path) -> None:
    """Cut the first version out of the changelog."""
    _, notes, *_ = re.split(r"^## .*\n", (source / "CHANGELOG.md").read_text(), flags=re.MULTILINE)
    (DIST / "RELEASE_NOTES.md").write_text(notes.strip() + "\n")


def build_release(version: str) -> None:
    """Fill dist/ from HEAD, or exit with every obstacle."""
    if obstacles := [*find_obstacles(version)]:
        sys.exit("\n".join(f"release {version}: {one}" for one in obstacles))
    shutil.rmtree(DIST, ignore_errors=True)
    DIST.mkdir()
    seconds = int(run_git("log", "-1", "--format=%ct"))
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder, "source")
        export_head(source)
        build_packages(source, seconds)
        write_archive(DIST / f"firnline-{version}.tgz", source / "infra/helm/firnline", seconds)
        write_sbom(source, version, seconds)
        write_notes(source)
    sums = [(hashlib.sha256(one.read_bytes()), one.name) for one in sorted(DIST.iterdir())]
    lines = "".join(f"{checksum.hexdigest()}  {name}\n" for checksum, name in sums)
    (DIST / "SHA256SUMS").write_text(lines)
    print(lines, end="")


if __name__ == "__main__":
    build_release(sys.argv[1])
