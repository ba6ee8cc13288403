"""Programs of servers that tests build from the Go module proxy, once, into the cache of artifacts.
Each is held to its module's checksum."""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
from functools import lru_cache
from pathlib import Path
from tempfile import TemporaryDirectory

from firnline_local.servers.artifacts import cache_root


class NoGo(RuntimeError):
    """Go is needed to build the server, once."""


@lru_cache
def go_program(package: str, version: str, checksum: str) -> Path:
    """Return the program of a package, named as its last part that is no version. Raises NoGo where
    it is neither there nor can be built."""
    name = next(one for one in reversed(package.split("/")) if one != "v2")
    target = cache_root() / "go" / f"{name}-{version}" / name
    target.parent.mkdir(parents=True, exist_ok=True)
    with (target.parent / "lock").open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # sessions of tests side by side
        if not target.exists():
            _build(target, f"{package}@{version}", checksum)
    return target


def _build(target: Path, module: str, checksum: str) -> None:
    go = shutil.which("go")
    if go is None:
        raise NoGo(f"Go builds {target.name} for these tests: put it on the PATH")
    with TemporaryDirectory(dir=target.parent) as folder:
        environment = {**os.environ, "GOBIN": folder, "GOFLAGS": "-p=1"}
        subprocess.run([go, "install", module], check=True, env=environment, cwd=folder)
        made = Path(folder) / target.name
        about = subprocess.run([go, "version", "-m", made], check=True, capture_output=True)
        assert checksum in about.stdout.decode(), "not the module that is pinned"
        made.replace(target)
