"""Spark's Python daemon, with what a group needs imported before the first fork.

Every Python worker of an executor is a fork of this process: the imports (0.9 s of CPU each,
60 MB) are paid once per executor instead of once per worker, and their pages are shared.
"""

from __future__ import annotations

import gc

import pyiceberg.io.pyarrow
from pyspark import daemon

import firnline_worker.stage

FORKED_WITH = (pyiceberg.io.pyarrow, firnline_worker.stage)

if __name__ == "__main__":
    gc.freeze()  # a collection in a fork would touch, and so copy, every page of the imports
    daemon.manager()  # type: ignore[no-untyped-call]
