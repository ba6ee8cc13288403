"""Files on HDFS without Hadoop's native library: `hdfs-native`, a client of its own, which reads
`core-site.xml` and `hdfs-site.xml` in `HADOOP_CONF_DIR`, as Java's does.

Arrow's client needs libhdfs.so, which no package registry has, and a JVM in each Python process.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from functools import cache, wraps
from typing import Any, Final

from pyarrow.fs import FileSystem, FSSpecHandler, PyFileSystem

# Of this process, and those that it inherited: a client ends with threads that a fork left behind,
# so a child in which one is freed waits for ever. fsspec's own cache frees all of them there.
_clients: dict[tuple[int, str, str], FileSystem] = {}
HADOOP: Final = ("hdfs", "viewfs")
USER, USER_NAME = "hdfs.user", "HADOOP_USER_NAME"
MISSING = (
    "tables on {scheme}:// need the package hdfs-native in every service, and on every executor "
    "(pip install 'firnline[hdfs]')"
)


def hadoop_files(scheme: str, netloc: str | None, properties: Mapping[str, Any]) -> FileSystem:
    """Return Arrow's file system of an HDFS, one per process and name node. `netloc`: a name node's
    host and port, or the name of a service; None: that of `fs.defaultFS`. Raises OSError."""
    try:
        from hdfs_native import fsspec
    except ImportError as error:
        raise OSError(f"{MISSING.format(scheme=scheme)}: {error}") from error
    user = properties.get(USER)
    if user and user != os.environ.get(USER_NAME):
        text = f"{USER}={user}: set {USER_NAME}={user} in its place, which Java's client knows too"
        raise OSError(text)
    key = (os.getpid(), scheme, netloc or "")
    if key not in _clients:
        made = _with_file_times(
            fsspec.HdfsFileSystem if scheme == "hdfs" else fsspec.ViewfsFileSystem
        )
        host, _, port = (netloc or "").partition(":")
        client = made(host or None, int(port) if port else None, skip_instance_cache=True)
        _clients.setdefault(key, PyFileSystem(FSSpecHandler(client)))
    return _clients[key]


@cache
def _with_file_times(client: type[Any]) -> type[Any]:
    """Return a subclass that names the time when a file was written as Arrow does, and whose errors
    are those of files: those of a name node come as a RuntimeError."""

    def convert_status(self: Any, status: Any) -> dict[str, Any]:
        found: dict[str, Any] = client._convert_file_status(self, status)
        return {**found, "mtime": status.modification_time / 1000}

    def open_file(self: Any, *args: Any, **given: Any) -> Any:
        file = _with_os_errors(client._open)(self, *args, **given)
        for name in ("read", "write", "close"):
            if hasattr(file, name):
                setattr(file, name, _with_os_errors(getattr(file, name)))
        return file

    calls = {
        name: _with_os_errors(getattr(client, name)) for name in ("info", "ls", "mkdir", "mv", "rm")
    }
    own = {"_convert_file_status": convert_status, "_open": open_file, **calls}
    return type("HadoopFiles", (client,), own)


def _with_os_errors(call: Callable[..., Any]) -> Callable[..., Any]:
    """Raise OSError for the call's errors, with the first line only, without Java's stack trace."""

    @wraps(call)
    def call_with_os_errors(*args: Any, **given: Any) -> Any:
        try:
            return call(*args, **given)
        except RuntimeError as error:
            raise OSError(str(error).replace("\\n", "\n").partition("\n")[0]) from error

    return call_with_os_errors
