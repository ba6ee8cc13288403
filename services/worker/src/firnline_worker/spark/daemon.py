"""Spark's Python daemon, with what a group needs imported before the first fork.

Every Python worker of an executor is a fork of this process: the imports (0.9 s of CPU each,
60 MB) are paid once per executor instead of once per worker, and their pages are shared.
"""

from __future__ import annotations

import gc
import sys
from importlib.machinery import PathFinder

_ARCHIVES = (".zip", ".jar")


def without_archives(path: list[str]) -> list[str]:
    """Return `path` without Spark's own jar and its zipped PySpark, if that is installed as well:
    PySpark makes every task read the directories of all archives on the path anew, 0.1 s of CPU."""
    plain = [place for place in path if not place.endswith(_ARCHIVES)]
    return path if PathFinder.find_spec("pyspark", plain) is None else plain


sys.path[:] = without_archives(sys.path)

import pyiceberg.io.pyarrow  # noqa: E402
from pyspark import daemon  # noqa: E402

import firnline_worker.spark.stage  # noqa: E402

FORKED_WITH = (pyiceberg.io.pyarrow, firnline_worker.spark.stage)

if __name__ == "__main__":
    for place in set(sys.path_importer_cache) - set(sys.path):
        if place.endswith(_ARCHIVES):
            del sys.path_importer_cache[place]
    gc.freeze()  # a collection in a fork would touch, and so copy, every page of the imports
    daemon.manager()  # type: ignore[no-untyped-call]
