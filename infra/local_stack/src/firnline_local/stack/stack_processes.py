"""Processes of a stack, found by a mark in their environment.

The mark is inherited, so it finds what no recorded process id could: the JVM or the Python worker
that a killed service left behind.
"""

from __future__ import annotations

import os
import time
from pathlib import Path

import psutil

STACK = "FIRNLINE_STACK"
PART = "FIRNLINE_PART"
GONE_S = 10.0
POLL_S = 0.02


def mark_of(state_dir: Path, part: str) -> dict[str, str]:
    """Return the environment that marks every process of a part."""
    return {STACK: str(state_dir), PART: part}


def find(state_dir: Path, part: str | None = None) -> list[psutil.Process]:
    """Return the living processes of the stack (or of one part), never the caller or its
    ancestors."""
    own = {os.getpid(), *(process.pid for process in psutil.Process().parents())}
    wanted = {STACK: str(state_dir)} if part is None else mark_of(state_dir, part)
    return [p for p in psutil.process_iter() if p.pid not in own and _has_mark(p, wanted)]


def kill(state_dir: Path, part: str | None = None) -> list[int]:
    """Send SIGKILL to them, and wait until they have ended. Return their ids."""
    found = find(state_dir, part)
    for process in found:
        try:
            process.kill()
        except psutil.NoSuchProcess:
            continue  # it ended by itself
    deadline = time.monotonic() + GONE_S
    # Not psutil.wait_procs: a zombie that its own parent has yet to reap counts as gone.
    while find(state_dir, part) and time.monotonic() < deadline:
        time.sleep(POLL_S)
    return [process.pid for process in found]


def is_alive(process: psutil.Process) -> bool:
    """Return False for a process that has ended, reaped or not."""
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def _has_mark(process: psutil.Process, wanted: dict[str, str]) -> bool:
    """Return True if the process is alive and its environment contains these variables."""
    try:
        return is_alive(process) and wanted.items() <= process.environ().items()
    except (psutil.Error, OSError):
        return False  # it has just ended, or belongs to another user
