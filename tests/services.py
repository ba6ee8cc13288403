"""A service as a process, whose log says when it is ready."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from firnline_local.processes.command import Command
from firnline_local.stack.parts import ReadyLine


def service(name: str, at: Path, **environment: str) -> tuple[Command, Path]:
    """How to start it in a folder, and its log there; for `process.serving`."""
    log = at / f"{name}.log"
    line = ReadyLine(log)
    argv = (sys.executable, "-m", f"firnline_{name}")
    env = {**os.environ, **environment}
    return Command(
        name=name, argv=argv, cwd=at, env=env, ready=line.is_logged, prepare=line.skip_earlier_lines
    ), log
