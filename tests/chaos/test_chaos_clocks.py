"""A service's clock can be moved while it runs."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from firnline_chaos.clocks import set_clock, settings

ASK = (
    "import time; t = time.time; input(); print(t()); time.sleep(0.3); input(); print(time.time())"
)


def test_the_clock_of_a_running_process(tmp_path: Path) -> None:
    env = {**os.environ, **settings(tmp_path)["worker"]}
    argv = [sys.executable, "-c", ASK]
    with subprocess.Popen(
        argv, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as asked:
        assert asked.stdin is not None
        assert asked.stdout is not None
        set_clock(tmp_path, "worker", -3600)
        asked.stdin.write("\n")
        asked.stdin.flush()
        first = float(asked.stdout.readline())
        set_clock(tmp_path, "worker", 90)
        asked.stdin.write("\n")
        asked.stdin.flush()
        assert 3690 <= float(asked.stdout.readline()) - first < 3720
