"""A folder is its process's alone, and goes when that is dead, not before."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

from firnline_worker.host.own_folder import own_folder

HOLD = "import sys, time, pathlib; from firnline_worker.host.own_folder import own_folder; "
HOLD += "own = own_folder(pathlib.Path(sys.argv[1]), 'spark-'); print(own.path, flush=True); "
HOLD += "time.sleep(60)"


def test_another_processs_folder_stays_until_it_is_killed(tmp_path: Path) -> None:
    argv = [sys.executable, "-c", HOLD, str(tmp_path)]
    other = subprocess.Popen(argv, stdout=subprocess.PIPE, text=True)
    assert other.stdout is not None
    with other.stdout as said:
        theirs = Path(said.readline().strip())
    first = own_folder(tmp_path, "spark-")
    assert theirs.is_dir()
    assert first.path != theirs
    os.kill(other.pid, signal.SIGKILL)
    other.wait()
    second = own_folder(tmp_path, "spark-")
    assert not theirs.exists()
    assert first.path.is_dir()
    for one in (first, second):
        one.close()
    assert list(tmp_path.iterdir()) == []


def test_folders_of_other_prefixes_are_nobody_elses_business(tmp_path: Path) -> None:
    (tmp_path / "sets-x").mkdir()
    (tmp_path / "spark-of-an-older-version").mkdir()
    own_folder(tmp_path, "spark-").close()
    assert [one.name for one in tmp_path.iterdir()] == ["sets-x"]
