"""Python imports this at its start where this folder is on PYTHONPATH: what the file CHAOS_CLOCK
says is then added to `time.time`. Standard library only; it runs in every process of a service."""

from __future__ import annotations

import os
import time

SEEN_EVERY_S = 0.2
_path = os.environ.get("CHAOS_CLOCK", "")
_real, _real_ns = time.time, time.time_ns
_seen = [float("-inf"), 0.0]  # when the file was read last, and what it said


def _ahead() -> float:
    now = time.monotonic()
    if now - _seen[0] > SEEN_EVERY_S:
        try:
            with open(_path) as file:
                _seen[:] = [now, float(file.read())]
        except (OSError, ValueError):
            _seen[0] = now
    return _seen[1]


if _path:
    time.time = lambda: _real() + _ahead()
    time.time_ns = lambda: _real_ns() + int(_ahead() * 1e9)
