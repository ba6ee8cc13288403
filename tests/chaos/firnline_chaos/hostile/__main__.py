"""`make fuzz-inputs MINUTES=n SEED=s`: hostile inputs beside ordinary writers; no other
fault but clocks that are days off and damaged state."""

from __future__ import annotations

import json
import logging
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path

from firnline_local.servers.artifacts import iceberg_jar

from firnline_chaos import report
from firnline_chaos.__main__ import arguments, ended
from firnline_chaos.hostile.owners import HostileOwners, refusing
from firnline_chaos.hostile.progress import Progress
from firnline_chaos.plan import INPUT_SORTS, draw
from firnline_chaos.rounds import prepared

PER_S = 8.0


def main() -> int:
    """Exit code: 0 nothing was found, 1 something was."""
    asked = arguments("fuzz-inputs")
    logging.disable(logging.ERROR)
    state_dir = asked.state or Path(tempfile.mkdtemp(prefix="firnline-inputs-"))
    started = time.monotonic()

    def say(line: str) -> None:
        print(f"{time.monotonic() - started:7.1f} s  {line}", flush=True)

    say(f"SEED={asked.seed} MINUTES={asked.minutes:g}, state in {state_dir}")
    with prepared(state_dir, iceberg_jar(), say, hostile_per_s=PER_S) as run:
        say("everything is up")
        owners = HostileOwners(
            iceberg_jar(), run.ground.by(run.ground.gateways[0]), run.ground.gateways[0]
        )
        owners.create_tables()
        run.guests.append(owners.work)
        run.hostile_uuids = owners.uuids
        run.ground.proxy.gate = refusing()
        progress = Progress(run.ground.stack)
        begun, number, found = time.monotonic(), 0, list[str]()
        try:
            while not found and time.monotonic() - begun < asked.minutes * 60:
                number += 1
                plan = draw(asked.seed, number, INPUT_SORTS)
                # Every other round clocks and state are true, and a standstill is a finding.
                calm = number % 2 == 1
                found = run.round(replace(plan, blows=()) if calm else plan)
                found += owners.findings(run.ground.stack.console_uri)
                found += progress.findings(judged=calm)
                say(f"round {number}: {len(found)} findings; {run.hostile_sent} hostile inputs")
                for finding in found:
                    say(f"FINDING {finding}")
        finally:
            progress.close()
            owners.close()
        figures = report.figures(run, asked.seed, number, (time.monotonic() - begun) / 60)
        figures["hostile owners"] = dict(owners.book.sent)
        figures |= {"longest standstill, s": {k: round(v, 1) for k, v in progress.worst.items()}}
        figures["findings"] = found
        (state_dir / "report.json").write_text(json.dumps(figures, indent=1))
    print("\n".join(report.lines(figures)))
    return ended(state_dir, asked.seed, bool(found), asked.state is None, "fuzz-inputs")


sys.exit(main())
