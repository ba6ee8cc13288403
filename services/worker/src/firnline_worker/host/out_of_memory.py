"""Measures memory, and recognizes failures that are out of it (memory-limit hazard, H18).

There is no limit of Spark's own: `spark.executor.pyspark.memory` is RLIMIT_AS, which counts mapped
sets. So memory ends in one of these ways, each of which a test brings about."""

from __future__ import annotations

import re
from collections.abc import Mapping
from contextlib import suppress

import psutil
from firnline_domain.policy.fleet.worker_memory import MemoryKind

_SIGNS = (
    "MemoryError",  # raised in a Python worker, its traceback is text here; ArrowMemoryError too
    "OutOfMemoryError",  # the JVM's heap
    "killed by YARN for exceeding",  # physical or virtual memory limits
)
# Of an executor that is lost on a standalone cluster, Kubernetes or YARN. 137: by the kernel, at a
# container's limit. 52: its heap was full.
_EXIT = re.compile(r"exit(?:ed with)? ?(?:code|status)(?: is|:)? ?(137|52)\b", re.IGNORECASE)
_HEAP_WAS_FULL = "52"
_JAVA, _NOT_ITS_HEAP = "OutOfMemoryError", "native thread"  # those come out of what is beside it
_GONE = "Python worker exited unexpectedly"
_CRASHED = "Fatal Python error"  # what the fault handler says of a segmentation fault


def measure_memory() -> Mapping[tuple[str, ...], float]:
    """Return the resident bytes of this process and all below it, for `metrics`."""
    used = 0
    here = psutil.Process()
    for process in (here, *here.children(recursive=True)):
        with suppress(psutil.Error):  # it has ended
            used += process.memory_info().rss
    return {(): used}


def is_out_of_memory(error: BaseException) -> bool:
    """Return whether memory ran out here, in the JVM, or in a Python worker. A worker that exits
    without a message was killed, which the kernel does when memory is exhausted: it has no other
    sign."""
    if isinstance(error, MemoryError):
        return True
    text = str(error)
    if _GONE in text:
        return _CRASHED not in text
    return any(sign in text for sign in _SIGNS) or _EXIT.search(text) is not None


def exhausted_memory(error: BaseException) -> MemoryKind:
    """Return which memory ran out, from the error's text. On clusters the JVM of an executor has a
    heap, too, which does little: the driver's is meant."""
    text = str(error)
    ended = _EXIT.search(text)
    if ended is not None and ended[1] == _HEAP_WAS_FULL:
        return MemoryKind.HEAP
    is_heap = not isinstance(error, MemoryError) and _JAVA in text and _NOT_ITS_HEAP not in text
    return MemoryKind.HEAP if is_heap else MemoryKind.OVERHEAD
