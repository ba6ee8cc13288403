"""`make schedules`: all of a depth, or one again."""

from __future__ import annotations

import argparse
import logging
import sys
import time
from collections import Counter
from pathlib import Path

from firnline_local.servers import artifacts

from firnline_schedules.ground import Ground
from firnline_schedules.lab import Lab, replayed
from firnline_schedules.oracle import Broken
from firnline_schedules.table import KINDS
from firnline_schedules.walk import Walk

SHOWN = 20  # broken schedules of a table


def main() -> int:
    asked = arguments()
    logging.disable(logging.ERROR)
    ground = Ground(Path(artifacts.iceberg_jar()))
    try:
        if asked.schedule:
            return replay(ground, asked.schedule)
        return walk(ground, asked.tables, asked.depth, asked.thin)
    finally:
        ground.close()


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="schedules")
    parser.add_argument("--depth", type=int, default=3)
    parser.add_argument("--thin", type=int, default=1)
    parser.add_argument("--tables", type=lambda text: text.split(","), default=list(KINDS))
    parser.add_argument("--schedule", help='as a failure prints it: "v2p: start pos deliver.A"')
    return parser.parse_args()


def replay(ground: Ground, text: str) -> int:
    name, *words = text.replace(":", " ").split()
    lab = Lab(ground, KINDS[name])
    try:
        replayed(lab, words)
    except Broken as broken:
        print(broken)
        return 1
    print(f"{text}: {show(lab.counts)}")
    return 0


def walk(ground: Ground, tables: list[str], depth: int, thin: int) -> int:
    failed, verdicts, total = 0, Counter[str](), 0
    for name in tables:
        lab, started = Lab(ground, KINDS[name]), time.monotonic()
        found = Walk(lab, depth, thin)
        found.run()
        took, count = time.monotonic() - started, sum(found.schedules.values())
        each = took * 1000 / max(found.steps, 1)
        lengths = ", ".join(f"{n} of length {size}" for size, n in sorted(found.schedules.items()))
        print(f"{name}: {count} schedules ({lengths}), {found.steps} steps, "
              f"{took:.0f} s, {each:.1f} ms a step, {len(found.broken)} broken")  # fmt: skip
        for broken in found.broken[:SHOWN]:
            print(f"BROKEN {broken}")
        failed, total = failed + len(found.broken), total + count
        verdicts += lab.counts
    print(f"{total} schedules, {failed} broken. Deliveries: {show(verdicts)}")
    return int(failed > 0)


def show(counts: Counter[str]) -> str:
    return ", ".join(f"{count} {what}" for what, count in sorted(counts.items()))


sys.exit(main())
