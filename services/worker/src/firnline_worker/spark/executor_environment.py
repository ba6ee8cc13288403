"""Sends executors on other hosts what they need from the driver: Python, packages and jars, by
Spark's own file server. They need to reach the driver and the table's storage, and nothing else of
ours."""

from __future__ import annotations

import os
from pathlib import Path

from firnline_domain.errors import Misconfigured
from pyspark import SparkContext

from firnline_worker.settings import WorkerSettings
from firnline_worker.spark import python_archive

OWN_PYTHON = "spark.pyspark.python"  # of the executors' hosts: then none is sent
PYTHON_ARCHIVE = "spark.firnline.python-archive"  # made by `firnline spark-archive`; unset: our own


def send_environment(context: SparkContext, settings: WorkerSettings) -> None:
    """Send Python, packages and jars to the executors, before the first stage. Raises
    Misconfigured."""
    java = context._jsc.sc()
    for jar in settings.iceberg_jar.split(os.pathsep):
        java.addJar(jar)
    given = settings.file.spark if settings.file else {}
    if own := given.get(OWN_PYTHON):
        context.pythonExec = own
        return
    archive = _archive_path(settings, given.get(PYTHON_ARCHIVE, ""))
    context.addArchive(f"{archive}#{python_archive.NAME}")
    context.pythonExec = python_archive.PYTHON


def _archive_path(settings: WorkerSettings, named: str) -> Path:
    if not named:
        return python_archive.ensure_archive(Path(settings.state_dir))
    path = Path(named)
    if not path.is_file():
        raise Misconfigured(f"{PYTHON_ARCHIVE} = {path}: no such file (firnline spark-archive)")
    return path.absolute()
