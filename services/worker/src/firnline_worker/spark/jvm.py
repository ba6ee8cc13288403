"""The JVM of the Spark driver.

It starts before the worker's other modules are imported, on a core that Python does not use.
"""

from __future__ import annotations

# It registers locks of every fork. Imported while pyspark's thread forks, it releases one that
# nobody took: a traceback in the log of a worker that is well.
import concurrent.futures.thread  # noqa: F401
import os
import shlex
import shutil
import sys
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from firnline_domain.errors import Misconfigured
from pyspark import SparkConf, SparkContext

from firnline_worker.settings import WorkerSettings

_OPTIONS = (
    "-Xms64m -XX:+UseSerialGC -XX:MaxNewSize=64m -XX:MaxHeapFreeRatio=40 "
    "-XX:Tier4InvocationThreshold=50000 -XX:Tier4MinInvocationThreshold=6000 "
    "-XX:Tier4CompileThreshold=150000 -XX:Tier4BackEdgeThreshold=400000"
)
"""The driver only plans and describes: 60 MB less than with G1, which aims at throughput. The
second compiler took a third of a worker's CPU in its first minutes; it begins after ten times as
many calls as by default. Iceberg's own action on 25 million rows takes as long."""
SCRATCH = "spark"  # under the state directory: what a killed driver leaves goes at the next start
OWNED = frozenset(
    {
        *("spark.master", "spark.app.name", "spark.submit.deployMode"),
        *("spark.executor.pyspark.memory", "spark.sql.extensions", "spark.redaction.regex"),
    }
)
"""Of Spark's settings, besides `_fixed_settings`, what nobody else decides."""
CLUSTER = {
    # A lost executor costs its groups a try, each of which has names of its own (`stage`).
    "spark.task.maxFailures": "3",
    "spark.dynamicAllocation.enabled": "true",  # else all cores of the cluster, for ever
    "spark.dynamicAllocation.shuffleTracking.enabled": "true",
    "spark.dynamicAllocation.executorIdleTimeout": "120s",  # a start costs 10 s of CPU
}
"""Defaults on a cluster; `[spark]` may say otherwise."""
REDACTED = (
    "(?i)secret|passw|token|credential|access[._-]?key|account[._-]?key|sas|authorization|header|"
    "jaas"
)
"""Names of settings whose values Spark's pages, its event log and its own log do not show."""


def launch(settings: WorkerSettings) -> threading.Thread:
    """Start the JVM in a thread. `spark.session` joins the thread; if the start failed it tries
    again, and raises."""
    scratch = scratch_of(settings)
    if not settings.scratch:  # of one process at a time, as its state directory is
        shutil.rmtree(scratch, ignore_errors=True)
    scratch.mkdir(parents=True, exist_ok=True)
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    if not settings.on_cluster:
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    if given := spark_options(settings):
        os.environ["PYSPARK_SUBMIT_ARGS"] = f"{properties_file(scratch, given)} pyspark-shell"
    start: Any = SparkContext._ensure_initialized
    conf = spark_conf(settings)
    thread = threading.Thread(target=start, kwargs={"conf": conf}, daemon=True)
    thread.start()
    return thread


def scratch_of(settings: WorkerSettings) -> Path:
    """Return the folder for temporary files of Spark and its JVM."""
    return Path(settings.scratch or Path(settings.state_dir, SCRATCH)).absolute()


def spark_conf(settings: WorkerSettings) -> SparkConf:
    """Return `start_settings` as a SparkConf."""
    conf = SparkConf().setMaster(settings.spark_master).setAppName("firnline-worker")
    return conf.setAll(list(start_settings(settings).items()))


def start_settings(settings: WorkerSettings) -> dict[str, str]:
    """Return Spark's settings for its start, which are readable on the driver's command line by all
    users of the host. `spark.executor.pyspark.memory` is never among them: it is RLIMIT_AS, which
    counts mapped sets (memory-limit hazard, H18). Executors on other hosts get what they need from
    the driver (`cluster`)."""
    found = _fixed_settings(settings)
    if settings.on_cluster:
        given = settings.file.spark if settings.file else {}
        found |= {name: value for name, value in CLUSTER.items() if name not in given}
    return found


def _fixed_settings(settings: WorkerSettings) -> dict[str, str]:
    """Return the settings that the operator may not choose."""
    scratch = scratch_of(settings)
    common = {
        "spark.driver.extraClassPath": settings.iceberg_jar,
        "spark.driver.memory": f"{settings.heap_bytes >> 10}k",
        "spark.driver.extraJavaOptions": f"{_OPTIONS} -Djava.io.tmpdir={scratch}",
        "spark.local.dir": str(scratch),
        "spark.python.daemon.module": "firnline_worker.spark.daemon",
        "spark.python.worker.faulthandler.enabled": "true",  # tells a crash from a kill (`memory`)
        "spark.executorEnv.ARROW_DEFAULT_MEMORY_POOL": "jemalloc",  # 13 % less at the peak
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.scheduler.mode": "FAIR",  # a short task does not queue behind a long one's groups
        "spark.speculation": "false",  # one writer per name
        "spark.redaction.regex": REDACTED,
        "spark.sql.shuffle.partitions": "8",
    }
    if not settings.on_cluster:
        common["spark.driver.host"] = common["spark.driver.bindAddress"] = "127.0.0.1"
        common["spark.task.maxFailures"] = "1"  # a task's second try is a new attempt
    return common


def spark_options(settings: WorkerSettings) -> Mapping[str, str]:
    """Return `[spark]` of the configuration file. Raises Misconfigured for settings that Firnline
    decides."""
    given = settings.file.spark if settings.file else {}
    owned = {*_fixed_settings(settings), *OWNED}
    if wrong := sorted(owned & given.keys()):
        path = settings.file.path if settings.file else ""
        lines = (
            f"{path}: [spark] {name}: Firnline decides this one; take it out" for name in wrong
        )
        raise Misconfigured("\n".join(lines))
    return given


def properties_file(folder: Path, given: Mapping[str, str]) -> str:
    """Write Spark's options to a file. Return the arguments with which Spark reads it next to its
    spark-defaults.conf. The file is readable only by us, unlike a command line: the options may
    contain secrets."""
    path = folder / "spark.properties"
    with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
        for name, value in given.items():
            text = value.replace("\\", "\\\\").replace("\n", "\\n")
            file.write(f"{name}={text}\n")
    return f"--properties-file {shlex.quote(str(path))} --load-spark-defaults"
