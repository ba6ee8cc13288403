"""A worker's parts in a process of their own: a process has one Spark session, and this one's is in
another network. Functions are sent to it by name."""

from __future__ import annotations

import multiprocessing
import os
import time
import traceback
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import psutil
from firnline_adapters.config.settings import from_environment
from firnline_iceberg.table.catalog_client import Tables
from firnline_worker.delete_sets.cache import DeleteSetCache
from firnline_worker.rewrite.iceberg_fallback import Handover
from firnline_worker.rewrite.rewriter import Rewriter
from firnline_worker.settings import WorkerSettings
from firnline_worker.spark.java_api import JavaTables
from firnline_worker.spark.session import SparkStage, start_session

from tests.integration.worker.lab import Lab


@dataclass(frozen=True)
class Parts:
    """As `bootstrap` puts them together, without topics."""

    settings: WorkerSettings
    spark: Any
    stage: SparkStage
    tables: Tables
    java: JavaTables
    cache: DeleteSetCache
    rewriter: Rewriter

    def lab(self, namespace: str) -> Lab:
        """Its tables' namespace is there."""
        name = self.settings.connection.name
        self.spark.sql(f"CREATE NAMESPACE IF NOT EXISTS {name}.{namespace}")
        return Lab(self.spark, self.java, self.tables, namespace)


class SparkDriver:
    """The process. Call it with a function of `Parts` and its arguments, all of them pickled."""

    def __init__(self, process: Any, pipe: Connection) -> None:
        self._process, self._pipe = process, pipe

    def __call__(self, function: Callable[..., Any], *args: Any) -> Any:
        """Its answer; raises RuntimeError with the traceback of what it raised."""
        self._pipe.send((function, args))
        return self.answer()

    def answer(self) -> Any:
        """The next one. Raises EOFError where the process has ended."""
        good, found = self._pipe.recv()
        if not good:
            raise RuntimeError(found)
        return found

    @property
    def tree(self) -> list[psutil.Process]:
        """Itself and its JVM."""
        root = psutil.Process(self._process.pid)
        return [root, *root.children(recursive=True)]

    def kill(self) -> None:
        """With its JVM."""
        for one in self.tree:
            one.kill()
        self._process.join()


@contextmanager
def spark_driver(environment: Mapping[str, str]) -> Iterator[SparkDriver]:
    """Up, with its session, as long as the block runs. `environment`: the settings."""
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=_serve, args=(theirs, dict(environment)), daemon=True)
    process.start()
    theirs.close()
    driver = SparkDriver(process, ours)
    try:
        driver.answer()
        yield driver
    finally:
        ours.close()
        process.join(30)
        if process.is_alive():
            driver.kill()


def _serve(pipe: Connection, environment: Mapping[str, str]) -> None:
    os.environ.update(environment)
    os.environ.pop("PYSPARK_PYTHON", None)
    parts = _answer(pipe, _parts)
    while parts is not None:
        try:
            function, args = pipe.recv()
        except EOFError:
            parts.spark.stop()
            return
        _answer(pipe, function, parts, *args)


def _answer(pipe: Connection, function: Callable[..., Any], *args: Any) -> Any:
    try:
        found = function(*args)
    except Exception:
        pipe.send((False, traceback.format_exc()))
        return None
    pipe.send((True, None if isinstance(found, Parts) else found))
    return found


def _parts() -> Parts:
    settings = from_environment(WorkerSettings, os.environ)
    spark = start_session(settings)
    stage = SparkStage(spark)
    tables = Tables(settings.connection)
    java = JavaTables(spark, settings.connection.name)
    cache = DeleteSetCache(Path(settings.state_dir))
    handover = Handover(java, tables, lambda _: nullcontext())
    rewriter = Rewriter(
        tables, java, cache, stage, handover, "w1", settings.delete_set_bytes, _now_ms
    )
    return Parts(settings, spark, stage, tables, java, cache, rewriter)


def _now_ms() -> int:
    return int(time.time() * 1000)
