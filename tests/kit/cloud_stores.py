"""Azure's and Google's stores on this machine: Azurite (npm) and fake-gcs-server (Go), fetched once
by their registries' own clients into the cache of artifacts, and held to their checksums."""

from __future__ import annotations

import base64
import fcntl
import json
import os
import shutil
import subprocess
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from firnline_iceberg.storage.arrow_file_io import LakeFileIO
from firnline_local.processes.command import Command
from firnline_local.processes.ports import LOOPBACK, free_port, is_open
from firnline_local.processes.process import run_process
from firnline_local.servers.artifacts import cache_root

AZURITE, AZURITE_VERSION = "azurite", "3.35.0"
AZURITE_SHA512 = (
    "GzKmi+/5U0baNRjEEVtBMLpLuIKEJ0uSh0VWBzOI4qe4f5ziJyoZQmcTO7QhxZTF6+rphj7TZS3PtJY7uiiacA=="
)
GCS = "github.com/fsouza/fake-gcs-server"
GCS_VERSION = "v1.52.2"
GCS_CHECKSUM = "h1:j6ne83nqHrlX5EEor7WWVIKdBsztGtwJ1J2mL+k+iio="
ACCOUNT, CONTAINER = "firnlinetest", "lake"
KEY = base64.b64encode(b"a key of this test alone, no more").decode()


class Missing(RuntimeError):
    """A program that fetches a server is not on this machine."""


@dataclass(frozen=True)
class Store:
    """`properties`: a connection's, in Iceberg's words."""

    location: str
    properties: dict[str, str]


@contextmanager
def azure(folder: Path) -> Iterator[Store]:
    """An account of Blob Storage with one container."""
    port = free_port()
    authority = f"{LOOPBACK}:{port}"
    properties = {"adls.account-name": ACCOUNT, "adls.account-key": KEY}
    for kind in ("blob", "dfs"):
        properties[f"adls.{kind}-storage-authority"] = authority
        properties[f"adls.{kind}-storage-scheme"] = "http"
    main = _azurite() / "node_modules" / AZURITE / "dist" / "src" / "blob" / "main.js"
    argv = (
        *(_program("node"), str(main), "--blobHost", LOOPBACK, "--blobPort", str(port)),
        *("--location", str(folder), "--silent", "--skipApiVersionCheck", "--disableTelemetry"),
    )
    accounts = {"AZURITE_ACCOUNTS": f"{ACCOUNT}:{KEY}"}
    command = Command("azurite", argv, folder, lambda: is_open(port), accounts)
    with run_process(command, folder / "azurite.log"):
        LakeFileIO(properties).fs_by_scheme("abfss", CONTAINER).create_dir(CONTAINER)
        place = f"abfss://{CONTAINER}@{ACCOUNT}.dfs.core.windows.net/t"
        yield Store(place, properties)


@contextmanager
def google(folder: Path) -> Iterator[Store]:
    """Cloud Storage with one bucket, which asks nobody who they are."""
    port = free_port()
    uri = f"http://{LOOPBACK}:{port}"
    argv = (
        *(str(_fake_gcs()), "-scheme", "http", "-host", LOOPBACK, "-port", str(port)),
        *("-backend", "filesystem", "-filesystem-root", str(folder / "data")),
        *("-public-host", f"{LOOPBACK}:{port}", "-external-url", uri),
    )
    (folder / "data").mkdir(parents=True)
    with run_process(Command("gcs", argv, folder, lambda: is_open(port)), folder / "gcs.log"):
        body = json.dumps({"name": CONTAINER}).encode()
        made = urllib.request.Request(f"{uri}/storage/v1/b?project=p", body, method="POST")
        made.add_header("Content-Type", "application/json")
        urllib.request.urlopen(made, timeout=30).close()
        properties = {"gcs.service.host": uri, "gcs.no-auth": "true", "gcs.project-id": "p"}
        yield Store(f"gs://{CONTAINER}/t", properties)


def _azurite() -> Path:
    def fetch(folder: Path) -> None:
        (folder / "package.json").write_text('{"private": true}')
        wanted = f"{AZURITE}@{AZURITE_VERSION}"
        flags = ("--no-audit", "--no-fund", "--ignore-scripts", "--silent")
        subprocess.run([_program("npm"), "install", *flags, wanted], check=True, cwd=folder)
        lock = json.loads((folder / "node_modules" / ".package-lock.json").read_text())
        found = lock["packages"][f"node_modules/{AZURITE}"]["integrity"]
        assert found == f"sha512-{AZURITE_SHA512}", "not the package that is pinned"

    return _fetched(f"npm/{AZURITE}-{AZURITE_VERSION}", fetch)


def _fake_gcs() -> Path:
    def fetch(folder: Path) -> None:
        environment = {**os.environ, "GOBIN": str(folder), "GOFLAGS": "-p=1"}
        wanted = f"{GCS}@{GCS_VERSION}"
        go = _program("go")
        subprocess.run([go, "install", wanted], check=True, env=environment, cwd=folder)
        made = folder / "fake-gcs-server"
        about = subprocess.run([go, "version", "-m", made], check=True, capture_output=True)
        assert GCS_CHECKSUM in about.stdout.decode(), "not the module that is pinned"

    return _fetched(f"go/fake-gcs-server-{GCS_VERSION}", fetch) / "fake-gcs-server"


def _fetched(name: str, fetch: Callable[[Path], None]) -> Path:
    target = cache_root() / name
    target.parent.mkdir(parents=True, exist_ok=True)
    with target.with_suffix(".lock").open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not target.exists():
            with TemporaryDirectory(dir=target.parent) as folder:
                made = Path(folder) / "made"
                made.mkdir()
                fetch(made)
                made.rename(target)
    return target


def _program(name: str) -> str:
    found = shutil.which(name)
    if found is None:
        raise Missing(f"{name} fetches a server of these tests: put it on the PATH")
    return found
