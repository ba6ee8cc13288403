"""Makes the archive that executors on other hosts run: Python itself, the packages that a group
needs, and Firnline.

One tar file. It holds the interpreter of this process with its standard library and the shared
libraries that it loads, so an executor's host needs Spark, Java and a glibc that is not older than
ours (docs/decisions/0043)."""

from __future__ import annotations

import hashlib
import io
import os
import re
import subprocess
import sys
import sysconfig
import tarfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from importlib.util import cache_from_source, find_spec
from pathlib import Path, PurePosixPath

from firnline_domain.errors import Misconfigured

NAME = "firnline"  # of the folder that an executor unpacks it into
PYTHON = f"./{NAME}/bin/python"
ROOTS = (
    *("mmh3", "msgspec", "numpy", "psutil", "pyarrow"),
    *("pyiceberg", "pyroaring", "pyspark", "zstandard"),
    # With which keys to the storage are renewed, and calls of the catalog counted.
    *("cachetools", "fastavro", "prometheus-client", "pyyaml", "requests"),
)
"""Distributions that a group imports; what they require comes along."""
OPTIONAL = (
    "adlfs",
    "boto3",
    "fsspec",
    "gcsfs",
    "hdfs-native",
    "s3fs",
)  # other storages, where installed
OURS = (
    *("firnline_adapters", "firnline_deletes", "firnline_domain"),
    *("firnline_iceberg", "firnline_schemas", "firnline_worker"),
)
_VERSION = f"python{sys.version_info[0]}.{sys.version_info[1]}"
_SITE = f"lib/{_VERSION}/site-packages"
_LEFT_OUT = re.compile(
    r"(^|/)(tests?|idlelib|tkinter|turtledemo|ensurepip|lib2to3|site-packages|dist-packages"
    r"|config-[^/]+|include|examples|jars)(/|$)|(^|/)pyspark/(bin|sbin|data|licenses|python)/"
    r"|(^|/)pyarrow/[^/]*flight|(^|/)_tkinter"
)
"""Spark's jars (460 MB), which are on the executor; Arrow's RPC (40 MB); sources and tests."""
_OF_GLIBC = re.compile(r"(ld-linux|libc|libm|libdl|libpthread|librt|libutil|libresolv)[-.]")
_WRAPPER = f"""#!/bin/sh
here=$(cd "$(dirname "$0")/.." && pwd -P)
export PYTHONHOME="$here"
export PYTHONPATH="$here/{_SITE}${{PYTHONPATH:+:$PYTHONPATH}}"
export LD_LIBRARY_PATH="$here/lib${{LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}}"
exec "$here/bin/{_VERSION}" "$@"
"""
LEVEL = 1  # of gzip: 2 s of CPU for a third of the size


@dataclass(frozen=True)
class Member:
    """A file of the archive."""

    name: str
    source: Path


def ensure_archive(folder: Path) -> Path:
    """Return the archive of what is installed now, in `folder`. Makes it if it is missing, and
    removes older ones. Raises Misconfigured."""
    listed = list_members()
    path = folder.absolute() / f"python-{digest_members(listed)}.tar.gz"
    if not path.exists():
        folder.mkdir(parents=True, exist_ok=True)
        for old in folder.glob("python-*.tar.gz"):
            old.unlink(missing_ok=True)
        write_archive(path, listed)
    return path


def write_archive(path: Path, listed: Iterable[Member]) -> None:
    """Write the archive, whole or not at all."""
    part = path.with_name(f".{os.getpid()}.{path.name}")
    try:
        with tarfile.open(part, "w:gz", compresslevel=LEVEL) as tar:
            _add_text(tar, "bin/python", _WRAPPER)
            for member in listed:
                tar.add(member.source.resolve(), member.name, recursive=False)
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)


def digest_members(listed: Iterable[Member]) -> str:
    """Return a digest that changes with any file's size or time."""
    about = hashlib.sha256(_WRAPPER.encode())
    for one in listed:
        if one.name.endswith(".pyc"):
            continue
        stat = one.source.stat()
        about.update(f"{one.name}\0{stat.st_size}\0{stat.st_mtime_ns}\n".encode())
    return about.hexdigest()[:16]


def list_members() -> list[Member]:
    """Return every file, by the name that it has in the archive. Raises Misconfigured."""
    found = {one.name: one for one in (*_interpreter_files(), *_package_files(), *_own_files())}
    libraries = _shared_libraries(
        one.source for one in found.values() if one.name.startswith("bin/")
    )
    return list(({one.name: one for one in libraries} | found).values())


def _interpreter_files() -> Iterator[Member]:
    binary = Path(sys.executable).resolve()  # of a venv: what it was made from
    yield Member(f"bin/{_VERSION}", binary)
    standard = Path(sysconfig.get_path("stdlib", vars={"installed_base": sys.base_prefix}))
    yield from _files_below(standard, f"lib/{_VERSION}")


def _package_files() -> Iterator[Member]:
    for one in _required_distributions(ROOTS, OPTIONAL):
        for file in one.files or ():
            name = PurePosixPath(str(file))
            if ".." not in name.parts and not _LEFT_OUT.search(str(name)):
                source = Path(str(one.locate_file(file)))
                if source.is_file():
                    yield Member(f"{_SITE}/{name}", source)
                    yield from _compiled_file(f"{_SITE}/{name}", source)


def _compiled_file(name: str, source: Path) -> Iterator[Member]:
    """Yield the compiled file of a module, if there is one: it saves 2 s of CPU per executor."""
    if source.suffix == ".py":
        cached = Path(cache_from_source(str(source)))
        if cached.is_file():
            yield Member(f"{name.rpartition('/')[0]}/__pycache__/{cached.name}", cached)


def _own_files() -> Iterator[Member]:
    """Yield Firnline's files, from where they are imported: an editable installation lists no
    files."""
    for name in OURS:
        yield from _files_below(_folder_of(name), f"{_SITE}/{name}")


def _folder_of(package: str) -> Path:
    spec = find_spec(package)
    assert spec is not None, package
    return Path(spec.origin or "").parent


def _files_below(folder: Path, name: str) -> Iterator[Member]:
    for root, folders, files in os.walk(folder):
        where = Path(root).relative_to(folder)
        folders[:] = sorted(one for one in folders if not _LEFT_OUT.search(f"{where / one}/"))
        for file in sorted(files):
            yield Member(f"{name}/{where / file}", Path(root, file))


def _required_distributions(roots: Iterable[str], optional: Iterable[str]) -> list[Distribution]:
    """Return these distributions and what they require, without extras."""
    found: dict[str, Distribution] = {}
    waiting = [(name, name in roots) for name in (*roots, *optional)]
    while waiting:
        name, needed = waiting.pop()
        if (key := re.sub(r"[-_.]+", "-", name).lower()) in found:
            continue
        try:
            found[key] = one = distribution(name)
        except PackageNotFoundError:
            if needed:
                raise Misconfigured(f"{name} is not installed; executors need it") from None
            continue
        for requirement in one.requires or ():
            text, _, marker = requirement.partition(";")
            if "extra" not in marker and (match := re.match(r"[A-Za-z0-9._-]+", text)):
                waiting.append((match[0], False))
    return list(found.values())


def _shared_libraries(binaries: Iterable[Path]) -> Iterator[Member]:
    """Yield the shared libraries of the system that the interpreter and its modules load. Those of
    glibc are left out: they belong to the host's loader."""
    folder = Path(sysconfig.get_config_var("DESTSHARED") or "")
    modules = (one for one in folder.glob("*.so") if not _LEFT_OUT.search(one.name))
    arrow = _folder_of("pyarrow").glob("libarrow.so*")
    for binary in (*binaries, *modules, *arrow):
        told = subprocess.run(["ldd", binary], capture_output=True, text=True, check=False)
        for name, path in re.findall(r"(\S+) => (/\S+)", told.stdout):
            if not _OF_GLIBC.match(name) and "site-packages" not in path:
                yield Member(f"lib/{name}", Path(path))


def _add_text(tar: tarfile.TarFile, name: str, text: str) -> None:
    info = tarfile.TarInfo(name)
    info.mode, info.size = 0o755, len(text)
    tar.addfile(info, io.BytesIO(text.encode()))
