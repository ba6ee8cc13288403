"""Run a command that dies with its parent: `python die_with_parent.py PARENT_PID ARGV...`.

A SIGKILLed parent cannot stop its children, so the kernel does (PR_SET_PDEATHSIG survives the
exec). A tiny program and not a preexec_fn: forking Python code is unsafe where the parent has
threads, and librdkafka starts some. Standard library only; run with -I -S, it costs 15 ms.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys

PR_SET_PDEATHSIG = 1  # linux/prctl.h


def main() -> None:
    parent = int(sys.argv[1])
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:  # it died before the kernel was told
            sys.exit(1)
    os.execvp(sys.argv[2], sys.argv[2:])


if __name__ == "__main__":
    main()
