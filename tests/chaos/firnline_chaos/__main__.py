"""`make chaos MINUTES=n SEED=s`: rounds until the time is over, or a finding."""

from __future__ import annotations

import argparse
import json
import logging
import random
import shutil
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from firnline_local.servers.artifacts import iceberg_jar

from firnline_chaos import report
from firnline_chaos.lakes import LAKES
from firnline_chaos.rounds import Run, prepared


def main() -> int:
    """Exit code: 0 all invariants held, 1 one did not."""
    asked = arguments()
    logging.disable(logging.ERROR)
    state_dir = asked.state or Path(tempfile.mkdtemp(prefix="firnline-chaos-"))
    started = time.monotonic()

    def say(line: str) -> None:
        print(f"{time.monotonic() - started:7.1f} s  {line}", flush=True)

    say(f"SEED={asked.seed} MINUTES={asked.minutes:g}, state in {state_dir}")
    with prepared(state_dir, iceberg_jar(), say, config=asked.config) as run:
        say("everything is up")
        begun, number = time.monotonic(), 0
        found: list[str] = []
        while not found and time.monotonic() - begun < asked.minutes * 60:
            number += 1
            found = run.round(run.plan(asked.seed, number))
            say(f"round {number}: {len(found)} findings; {len(run.book.done)} writes so far")
            for one in found:
                say(f"FINDING {one}")
            written(state_dir, run, asked.seed, number, begun)  # a run that is killed leaves these
        for one in run.finale() if not found else ():
            found.append(one)
            say(f"FINDING after the sweep: {one}")
        figures = written(state_dir, run, asked.seed, number, begun)
    print("\n".join(report.lines(figures)))
    target = f"chaos CONFIG={asked.config}" if asked.config else "chaos"
    return ended(state_dir, asked.seed, bool(found), asked.state is None, target)


def written(state_dir: Path, run: Run, seed: int, rounds: int, begun: float) -> dict[str, Any]:
    """The figures so far, in `report.json` too."""
    found = report.figures(run, seed, rounds, (time.monotonic() - begun) / 60)
    (state_dir / "report.json").write_text(json.dumps(found, indent=1))
    return found


def arguments(prog: str = "chaos") -> argparse.Namespace:
    """Of this suite, or of another one that runs in rounds."""
    parser = argparse.ArgumentParser(prog=prog)
    parser.add_argument("--minutes", type=float, default=2.0)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(10**6))
    parser.add_argument("--config", choices=LAKES, help="a lake that asks who one is")
    parser.add_argument("--state", type=Path, help="folder to work in; else a temporary one")
    return parser.parse_args()


def ended(state_dir: Path, seed: int, failed: bool, ours: bool, target: str = "chaos") -> int:
    """Logs and tables of a run that found something are kept."""
    if failed:
        print(f"again with: make {target} SEED={seed}; logs and tables are in {state_dir}")
    elif ours:
        shutil.rmtree(state_dir, ignore_errors=True)
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
