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

from firnline_worker.spark.executor_delete_sets import scratch_folder

if TYPE_CHECKING:  # executors import this module, and have not all that reads a catalog
    from firnline_iceberg.table.catalog_client import Tables

PACKAGES = ("numpy", "pyarrow", "pyiceberg")
WAIT_S = 120.0  # for the first executor: on Kubernetes an image may have to be pulled
READ_S = (
    20.0  # an S3 client repeats a refused connection for 98 s, a dropped one for longer than WAIT_S
)
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
    for name in islice(tables.table_names(), 5):
        with suppress(TaskRefused):
            table = tables.load_named(name[:-1], name[-1])
            storage = TableStorage.from_io(table.io, table.metadata.location)
            return Sample(table.metadata_location, storage)
    return None


@dataclass(frozen=True)
class ExecutorPackages:
    """The equipment of one executor; `unread`: why it could not read the sample."""

    host: str
    python: str
    versions: Mapping[str, str]
    scratch: str = ""
    free_bytes: int = 0
    unread: str = ""


def check_executors(
    spark: SparkSession, sample: Sample | None, wait_s: float = WAIT_S
) -> list[ExecutorPackages]:
    """Return the executors' equipment. Raises Misconfigured with a line for each thing that is
    missing."""
    context = spark.sparkContext
    with _cancel_jobs_after(context, wait_s) as late:
        try:
            found = _collect_reports(context, sample)
        except Exception as error:
            raise Misconfigured(
                _failure_text(error, late.is_set(), context.master, wait_s)
            ) from None
    mine = _describe_host()
    lines = [line for one in found for line in find_flaws(one, mine)]
    if not lines:
        lines = list(_missing_classes(spark, sample))
    if lines:
        raise Misconfigured("\n".join(dict.fromkeys(lines)))
    return found


def find_flaws(found: ExecutorPackages, mine: ExecutorPackages) -> Iterator[str]:
    """Yield what an executor lacks, as messages with their remedy."""
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


def _collect_reports(context: SparkContext, sample: Sample | None) -> list[ExecutorPackages]:
    count = max(1, context._jsc.sc().getExecutorMemoryStatus().size() - 1)
    rdd = context.parallelize(range(count), count)
    found: list[ExecutorPackages] = rdd.mapPartitions(partial(_report_in_task, sample)).collect()
    return found


def _report_in_task(sample: Sample | None, _: Any) -> Iterator[ExecutorPackages]:
    yield _describe_host(sample, remote=True)


def _describe_host(sample: Sample | None = None, remote: bool = False) -> ExecutorPackages:
    versions = {}
    for name in PACKAGES:
        try:
            versions[name] = version(name)
        except PackageNotFoundError:
            continue
    found = ExecutorPackages(platform.node(), platform.python_version(), versions)
    if not remote:
        return found
    try:
        folder = scratch_folder()
        free = shutil.disk_usage(folder).free
    except OSError:
        return found
    return ExecutorPackages(
        found.host, found.python, versions, str(folder), free, _try_read(sample)
    )


def _try_read(sample: Sample | None) -> str:
    """Read one byte of the sample on this host. Return the error as text; '' if there is none, or
    no sample."""
    if sample is None:
        return ""
    failures = [f"{sample.location}: no answer in {READ_S:.0f} s"]

    def read() -> None:
        try:
            with sample.storage.make_io().new_input(sample.location).open() as source:
                source.read(1)
            failures.append("")
        except Exception as error:
            failures.append(f"{sample.location}: {type(error).__name__}: {str(error)[:300]}")

    reader = threading.Thread(target=read, daemon=True)
    reader.start()
    reader.join(READ_S)
    return failures[-1]


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
def _cancel_jobs_after(context: SparkContext, seconds: float) -> Iterator[threading.Event]:
    """Cancel all jobs of the context if the block takes longer than `seconds`; the event is set
    then."""
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


def _failure_text(error: Exception, late: bool, master: str | None, wait_s: float) -> str:
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
