"""Checks that executors on other hosts can do what a task needs, before the first task. Each
available executor reports what it has; each missing part becomes one line with its remedy."""

from __future__ import annotations

import platform
import shutil
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from itertools import islice
from typing import TYPE_CHECKING, Any

from firnline_domain.errors import Misconfigured, TaskRefused
from firnline_iceberg.storage.file_io import TableStorage
from pyspark import SparkContext
from pyspark.sql import SparkSession

from firnline_worker.spark.executor_delete_sets import scratch

if TYPE_CHECKING:  # executors import this module, and have not all that reads a catalog
    from firnline_iceberg.table.catalog_client import Tables

PACKAGES = ("numpy", "pyarrow", "pyiceberg")
WAIT_S = 120.0  # for the first executor: on Kubernetes an image may have to be pulled
SCRATCH_BYTES = 1 << 30
ICEBERG = "org.apache.iceberg.IcebergBuild"
CLIENTS = {  # a static method without arguments, of the client that a FileIO needs
    "s3": ("software.amazon.awssdk.regions.Region", "regions", "iceberg-aws-bundle"),
    "gs": ("com.google.cloud.NoCredentials", "getInstance", "iceberg-gcp-bundle"),
    "abfss": (
        "com.azure.storage.file.datalake.DataLakeServiceVersion",
        "getLatest",
        "iceberg-azure-bundle",
    ),
}


@dataclass(frozen=True)
class Sample:
    """A file of a table, of which every executor reads a byte."""

    location: str
    storage: TableStorage


def first_sample(tables: Tables) -> Sample | None:
    """Return the metadata file of the first table that can be loaded, of the first few; None if
    there is none. Raises RetryLater."""
    for name in islice(tables.names(), 5):
        with suppress(TaskRefused):
            table = tables.named(name[:-1], name[-1])
            storage = TableStorage.of(table.io, table.metadata.location)
            return Sample(table.metadata_location, storage)
    return None


@dataclass(frozen=True)
class Found:
    """The equipment of one executor; `unread`: why it could not read the sample."""

    host: str
    python: str
    versions: Mapping[str, str]
    scratch: str = ""
    free_bytes: int = 0
    unread: str = ""


def require(spark: SparkSession, sample: Sample | None, wait_s: float = WAIT_S) -> list[Found]:
    """Return the executors' equipment. Raises Misconfigured with a line for each thing that is
    missing."""
    context = spark.sparkContext
    with _given_up_after(context, wait_s) as late:
        try:
            found = _found(context, sample)
        except Exception as error:
            raise Misconfigured(_why(error, late.is_set(), context.master, wait_s)) from None
    mine = _here()
    lines = [line for one in found for line in flaws(one, mine)]
    if not lines:
        lines = list(_missing_classes(spark, sample))
    if lines:
        raise Misconfigured("\n".join(dict.fromkeys(lines)))
    return found


def flaws(found: Found, mine: Found) -> Iterator[str]:
    """Return what an executor lacks, as messages with their remedy."""
    if found.python.rpartition(".")[0] != mine.python.rpartition(".")[0]:
        yield (
            f"executor {found.host} runs Python {found.python}, the worker {mine.python}: take "
            "spark.pyspark.python out of [spark], and the worker's own is sent"
        )
    for name in PACKAGES:
        if found.versions.get(name) != mine.versions.get(name):
            has = found.versions.get(name) or "no"
            yield (
                f"executor {found.host} has {has} {name}, the worker {mine.versions.get(name)}: "
                "make the archive anew (firnline spark-archive)"
            )
    if not found.scratch:
        yield f"executor {found.host} has no scratch folder: set SPARK_LOCAL_DIRS on its host"
    elif found.free_bytes < SCRATCH_BYTES:
        yield (
            f"executor {found.host}: {found.free_bytes >> 20} MiB free in {found.scratch}, "
            f"{SCRATCH_BYTES >> 20} are wanted for delete sets: set SPARK_LOCAL_DIRS there"
        )
    if found.unread:
        yield (
            f"executor {found.host} cannot read the tables' storage ({found.unread}): let its host "
            "reach the endpoint; keys come from the catalog or from [catalogs.NAME] of the file"
        )


def _found(context: SparkContext, sample: Sample | None) -> list[Found]:
    count = max(1, context._jsc.sc().getExecutorMemoryStatus().size() - 1)
    rdd = context.parallelize(range(count), count)
    found: list[Found] = rdd.mapPartitions(partial(_looked, sample)).collect()
    return found


def _looked(sample: Sample | None, _: Any) -> Iterator[Found]:
    yield _here(sample, remote=True)


def _here(sample: Sample | None = None, remote: bool = False) -> Found:
    versions = {}
    for name in PACKAGES:
        try:
            versions[name] = version(name)
        except PackageNotFoundError:
            continue
    found = Found(platform.node(), platform.python_version(), versions)
    if not remote:
        return found
    try:
        folder = scratch()
        free = shutil.disk_usage(folder).free
    except OSError:
        return found
    return Found(found.host, found.python, versions, str(folder), free, _unread(sample))


def _unread(sample: Sample | None) -> str:
    if sample is None:
        return ""
    try:
        with sample.storage.io().new_input(sample.location).open() as source:
            source.read(1)
    except Exception as error:
        return f"{sample.location}: {type(error).__name__}: {str(error)[:300]}"
    return ""


def _missing_classes(spark: SparkSession, sample: Sample | None) -> Iterator[str]:
    """Check Java's side: `reflect` looks classes up as Spark's tasks do."""
    wanted = [(ICEBERG, "version", "iceberg-spark-runtime")]
    scheme = sample.location.partition(":")[0] if sample else ""
    wanted += [CLIENTS[scheme]] if scheme in CLIENTS else []
    for name, method, jar in wanted:
        try:
            spark.range(1).selectExpr(f"reflect('{name}', '{method}')").collect()
        except Exception:
            yield f"executors do not find {name}: name {jar}'s jar in FIRNLINE_ICEBERG_JAR"


@contextmanager
def _given_up_after(context: SparkContext, seconds: float) -> Iterator[threading.Event]:
    late = threading.Event()

    def give_up() -> None:
        late.set()
        context.cancelAllJobs()

    timer = threading.Timer(seconds, give_up)
    timer.daemon = True
    timer.start()
    try:
        yield late
    finally:
        timer.cancel()


def _why(error: Exception, late: bool, master: str | None, wait_s: float) -> str:
    text = str(error)
    if late:
        return (
            f"{master}: no executor in {wait_s:.0f} s: it has no free cores or memory for one "
            "(spark.executor.cores, spark.executor.memory in [spark]), or its hosts do not reach "
            "the worker (spark.driver.host)"
        )
    for sign, remedy in _SIGNS.items():
        if sign in text:
            line = text[text.index(sign) :].splitlines()[0][:200]
            return f"executors cannot start Python ({line}): {remedy}"
    return f"{master}: {text.splitlines()[0][:500] if text else type(error).__name__}"


_SIGNS = {
    "Cannot run program": "spark.pyspark.python in [spark] names none of theirs; take it out, and "
    "the worker's own is sent",
    "ModuleNotFoundError": "make the archive anew (firnline spark-archive)",
    "GLIBC_": "their hosts have an older glibc than the worker's; set spark.pyspark.python in "
    "[spark] to a Python of theirs with firnline in it",
}
