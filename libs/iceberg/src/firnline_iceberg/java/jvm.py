"""A small JVM with Iceberg's Java API and without Spark, for as long as its parent lives.

Spark's own jars serve as the class path: py4j, Hadoop's file systems, Parquet. Up in about half a
second, 210 MB resident.
"""

from __future__ import annotations

import logging
import os
import pwd
import subprocess
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from importlib.resources import as_file, files
from importlib.util import find_spec
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Protocol

from firnline_domain.errors import Misconfigured
from py4j.clientserver import ClientServer, JavaParameters, PythonParameters
from py4j.java_gateway import GatewayParameters, JavaGateway
from py4j.protocol import Py4JError, Py4JJavaError

from firnline_iceberg.java.jars import jar_paths
from firnline_iceberg.java.names import JavaNames

STOP_S = 10.0
JAVA_CHARS = 1_000  # of an exception's text
DEATH_S = 1.0  # its sockets close a moment before the kernel says that it has ended
# A heap begins with a 64th of the host's memory, and is not collected as a whole before it is full.
_OPTIONS = ("-Xms64m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Djava.awt.headless=true")


class JvmEnded(Exception):
    """The JVM is gone, and with it every Java object: start anew."""


class JavaFailed(Exception):
    """A Java exception that nobody has handled, as text: without its JVM it says nothing."""


class Jvm(Protocol):
    """A JVM with Iceberg's classes: this one, or that of a Spark session."""

    @property
    def jvm(self) -> Any:
        """Root package of the JVM's classes."""

    def watch(self) -> AbstractContextManager[None]:
        """Raise JvmEnded if something fails because the JVM has ended."""


class IcebergJvm:
    """A running JVM; `jvm` is its root package. Each thread that uses it has a Java thread of its
    own.

    Java calls back into Python (`implements`) on the thread that called it. Log lines of WARN and
    above go to our stderr. It ends when our end of its stdin closes: even after kill -9.
    Raises Misconfigured if the jar or Java is missing.
    """

    def __init__(self, iceberg_jars: Path | str, heap_bytes: int = 512 << 20) -> None:
        """Start a JVM. `iceberg_jars`: one, or a class path (`jars.class_path`)."""
        self._process = _start_process(str(iceberg_jars), heap_bytes)
        port, token = _read_greeting(self._process)
        # The stock server has no token for calls back into Python, so it only builds one that has.
        self._first = JavaGateway(gateway_parameters=GatewayParameters(port=port, auth_token=token))
        java = JavaParameters(port=0, auth_token=token, auto_convert=True)
        self._gateway = ClientServer(
            java,
            PythonParameters(port=0, auth_token=token, daemonize=True, daemonize_connections=True),
        )
        # Java's finalizer connects to Python to release a proxy. Without it each commit leaves two
        # in memory.
        python_port = self._gateway.get_callback_server().get_listening_port()
        builder = self._first.jvm.py4j.ClientServer.ClientServerBuilder()
        server = builder.javaPort(0).pythonPort(python_port).authToken(token).build()
        server.startServer()
        java.port = server.getJavaServer().getListeningPort()
        self.jvm: Any = JavaNames(self._gateway.jvm)

    @property
    def pid(self) -> int:
        """Return the process id of the JVM."""
        return self._process.pid

    def is_reached_by(self, client: Any) -> bool:
        """Return True if a client of py4j is this JVM's, in a process that has several."""
        return client is self._gateway._gateway_client

    @contextmanager
    def watch(self) -> Iterator[None]:
        """Raise JvmEnded if the body fails because the JVM has ended: py4j raises half a dozen
        different exceptions for that."""
        try:
            yield
        except (Py4JError, OSError) as error:
            if self._has_ended():
                raise JvmEnded(str(error)) from error
            raise

    def _has_ended(self) -> bool:
        try:
            self._process.wait(DEATH_S)
        except subprocess.TimeoutExpired:
            return False
        return True

    def close(self) -> None:
        """End it; an unfinished call fails."""
        # Java objects that Python lets go of later are reported to a JVM that is gone: 130 lines
        # of refused connections, after the one that says why.
        logging.getLogger("py4j").setLevel(logging.CRITICAL)
        self._gateway.shutdown()
        self._first.close()
        _stdin_of(self._process).close()
        try:
            self._process.wait(STOP_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def __enter__(self) -> IcebergJvm:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Close the JVM. Raises JavaFailed instead of a Py4JJavaError, which only a running JVM can
        explain."""
        said = str(error.java_exception) if isinstance(error, Py4JJavaError) else ""
        self.close()
        if said:
            raise JavaFailed(said[:JAVA_CHARS]) from None


def _start_process(iceberg_jars: str, heap_bytes: int) -> subprocess.Popen[bytes]:
    require_user()
    jars = map(str, jar_paths(iceberg_jars))
    with as_file(files("firnline_iceberg.java").joinpath("log4j2.json")) as log_settings:
        argv = [
            _java_command(),
            f"-Xmx{heap_bytes}",
            *_OPTIONS,
            f"-Dlog4j2.configurationFile={log_settings}",
            "-cp",
            os.pathsep.join((*jars, f"{_spark_jars()}/*", *_of_hadoop())),
            "py4j.GatewayServer",
            "--die-on-broken-pipe",
            "--enable-auth",
            "0",
        ]
    try:
        # A group of its own: Ctrl-C reaches us alone, and a commit in flight is finished.
        return subprocess.Popen(
            argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, process_group=0
        )
    except FileNotFoundError as error:
        raise Misconfigured(f"Java 17 or newer is needed: {argv[0]} does not start") from error


def require_user() -> None:
    """Require an entry of the process' user in /etc/passwd: without one Hadoop, below Spark and
    Iceberg, ends with `Invalid UID`. Raises Misconfigured."""
    try:
        pwd.getpwuid(os.getuid())
    except KeyError:
        raise Misconfigured(
            f"user {os.getuid()} has no entry in /etc/passwd, and Hadoop wants its name: add a "
            f"line `firnline:x:{os.getuid()}:{os.getgid()}::/tmp:/bin/sh` there, or run as a user "
            "that has one"
        ) from None


def _read_greeting(process: subprocess.Popen[bytes]) -> tuple[int, str]:
    """Return port and token, its first two lines. Raises Misconfigured if it ended before."""
    assert process.stdout is not None
    with process.stdout as stdout:
        port, token = stdout.readline().strip(), stdout.readline().strip()
    if not token:
        raise Misconfigured(f"the JVM ended with {process.wait()} before it served; see its lines")
    return int(port), token.decode()


def _stdin_of(process: subprocess.Popen[bytes]) -> IO[bytes]:
    assert process.stdin is not None
    return process.stdin


def _java_command() -> str:
    home = os.environ.get("JAVA_HOME")
    return str(Path(home, "bin", "java")) if home else "java"


def _of_hadoop() -> list[str]:
    """Return the class-path entries of an HDFS: its settings and more jars, from the variables of
    Spark's own launcher."""
    names = ("HADOOP_CONF_DIR", "SPARK_DIST_CLASSPATH")
    return [found for name in names if (found := os.environ.get(name))]


def _spark_jars() -> Path:
    """Return the folder of the installed PySpark's jars, without importing PySpark (0.7 s). Raises
    Misconfigured."""
    spec = find_spec("pyspark")
    if spec is None or spec.origin is None:
        raise Misconfigured("PySpark is not installed; its jars are needed")
    return Path(spec.origin).parent / "jars"
