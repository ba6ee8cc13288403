"""Makes an archive of the classes that the driver's JVM loads (class data sharing of the JDK).

A worker without one has it made a minute after its start, at the lowest priority, by a JVM of its
own: 15 s of CPU and 130 MB on disk.
"""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from contextlib import closing, suppress
from dataclasses import replace
from typing import Any

from firnline_adapters.config.settings import from_environment
from firnline_domain.identity import TableName
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException

from firnline_worker.host.own_folder import own_folder
from firnline_worker.settings import Settings
from firnline_worker.spark.java_api import JavaTables
from firnline_worker.spark.jvm import ARCHIVES, SCRATCH, archive_path, launch
from firnline_worker.spark.session import SparkStage, session

HEAP = 512 << 20
DELAY_S = 60.0  # a worker that lives no longer is not worth it
_QUIET = "-Xlog:cds=off,cds+dynamic=off"  # it names each class that it leaves out


def make(settings: Settings) -> None:
    """Start a session as a worker does, ask the catalog for a table that is not there, and end the
    JVM, which then writes its archive."""
    archive = archive_path(settings)
    own = own_folder(archive.parent, f"{SCRATCH}-")
    with closing(own):
        part, folder = own.path / archive.name, str(own.path)
        small = replace(
            settings, scratch=folder, state_dir=folder, spark_master="local[1]", heap_bytes=HEAP
        )
        spark = session(small, launch(small, [f"-XX:ArchiveClassesAtExit={part}", _QUIET]))
        SparkStage(spark).warm()
        with suppress(Py4JJavaError, PySparkException):  # there is no such table
            first = next(iter(settings.connections))
            JavaTables(spark, first).load(TableName("", ("none",), "none"))
        gateway: Any = spark.sparkContext._gateway
        spark.stop()
        gateway.proc.stdin.close()
        gateway.proc.wait()
        for old in archive.parent.glob(f"{ARCHIVES}*.jsa"):
            old.unlink(missing_ok=True)
        part.rename(archive)


def make_later(settings: Settings) -> None:
    """Make the archive in another process, unless it is there. It ends with this one. Not on a
    cluster: `[spark]` says there what a session of one process may not be told."""
    if settings.on_cluster or archive_path(settings).exists():
        return
    argv = [sys.executable, "-m", __name__]
    timer = threading.Timer(DELAY_S, subprocess.Popen, [argv], {"stdin": subprocess.PIPE})
    timer.daemon = True
    timer.start()


def _end_with_parent() -> None:
    sys.stdin.read()  # until the worker's end of the pipe closes, however it ends
    os._exit(1)


if __name__ == "__main__":
    os.nice(19)
    threading.Thread(target=_end_with_parent, daemon=True).start()
    make(from_environment(Settings, os.environ))
