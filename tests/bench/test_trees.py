"""What a process tree costs, from /proc."""

from __future__ import annotations

import subprocess
import sys
import time

from bench.rewrite.trees import Watch, cpu_s, pss_of, stat_of, tree

ROLLUP = """55d0c8a00000-7ffd3a5f2000 ---p 00000000 00:00 0                          [rollup]
Rss:               12345 kB
Pss:                6789 kB
Pss_Dirty:          1111 kB
Pss_Anon:           1000 kB
"""
SPENDER = """
import subprocess, sys, time
block = bytearray(60_000_000)
child = "import time; end = time.process_time() + 0.5\\nwhile time.process_time() < end: pass"
subprocess.run([sys.executable, "-c", child], check=True)
end = time.process_time() + 0.3
while time.process_time() < end: pass
print("done", flush=True)
sys.stdin.read()
"""
SLEEPER = "import subprocess, sys; subprocess.run([sys.executable, '-c', 'input()'])"


def test_pss_is_the_total_and_not_a_part_of_it():
    assert pss_of(ROLLUP) == 6789 * 1024


def test_a_process_that_ends_has_no_memory():
    assert pss_of("") == 0


def test_a_name_may_hold_brackets_and_spaces():
    fields = ["S", "7", *["0"] * 9, "11", "22", "33", "44", *["0"] * 4, "999", "0"]
    stat = stat_of(f"42 (tricky) (name) {' '.join(fields)}")
    assert (stat.pid, stat.name, stat.parent) == (42, "tricky) (name", 7)
    assert (stat.own, stat.reaped, stat.started) == (33, 77, 999)


def test_a_watch_counts_reaped_children_and_memory():
    process = _started(SPENDER)
    with process, Watch(process.pid) as watch:
        assert process.stdout is not None
        assert process.stdout.readline() == "done\n"
        assert cpu_s(process.pid) >= 0.5  # the child is gone: its parent has its account
        watch._look()
    usage = watch.usage
    # Of a child that has gone, "by kind" knows what the last sample before its end saw.
    assert usage.cpu_s >= 0.75
    assert 0.25 <= sum(usage.cpu_by.values()) <= usage.cpu_s + 0.02
    assert usage.pss_peak >= 60_000_000
    assert sum(usage.pss_by.values()) == usage.pss_peak


def test_a_tree_has_grandchildren_and_nobody_else():
    process = _started(SLEEPER)
    with process:
        end = time.monotonic() + 20
        while len(found := list(tree(process.pid))) < 2 and time.monotonic() < end:
            time.sleep(0.05)
        assert {stat.parent for stat in found if stat.pid != process.pid} == {process.pid}
        assert len(found) == 2


def _started(program: str) -> subprocess.Popen[str]:
    """Ends when its stdin closes, as `with` closes it."""
    pipe = subprocess.PIPE
    return subprocess.Popen([sys.executable, "-c", program], stdin=pipe, stdout=pipe, text=True)
