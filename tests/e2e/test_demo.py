"""The main job as a user runs it, under fire: `firnline demo --kill ...`."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import psutil
import pytest

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(900)]
SERVICES = "gateway,enricher,planner,committer,worker,console"


def demo(state: Path, *options: str) -> dict[str, Any]:
    """Run it to its end; the figures. A failure shows the last lines of every log."""
    command = [sys.executable, "-m", "firnline_cli", "demo", "--state", str(state), "--json"]
    done = subprocess.run([*command, *options], capture_output=True, text=True, timeout=800)
    if done.returncode:
        pytest.fail(f"exit {done.returncode}\n{done.stderr[-6000:]}\n{tails(state)}")
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def tails(state: Path) -> str:
    logs = sorted((state / "logs").glob("*.log"))
    return "\n".join(f"== {log.name}\n{log.read_text()[-1500:]}" for log in logs)


def leftovers(state: Path) -> list[str]:
    """Processes that still have the state directory on their command line."""
    return [
        " ".join(process.info["cmdline"])
        for process in psutil.process_iter(["cmdline"])
        if str(state) in " ".join(process.info["cmdline"] or [])
    ]


def lines(state: Path, service: str, action: str) -> list[dict[str, str]]:
    """The pairs of a service's lines with that action."""
    text = (state / "logs" / f"{service}.log").read_text()
    return [
        dict(re.findall(r'(\w+)=("[^"]*"|\S+)', line))
        for line in text.splitlines()
        if f"action={action} " in line
    ]


def followed(state: Path) -> list[str]:
    """Tasks that `grep` follows from a writer's commit to the snapshot that they became, by one
    trace id in the log of each service."""
    commits = lines(state, "gateway", "committed")
    at_gateway = {(line["trace"], line.get("snapshots")) for line in commits}
    enriched = lines(state, "enricher", "enriched")
    read = {(line["trace"], line.get("snapshots")) for line in enriched}
    started = {(one.get("trace"), one["task"]) for one in lines(state, "worker", "task_started")}
    became = {
        (line.get("trace"), line["task"]): line["snapshots"]
        for line in lines(state, "committer", "committed")
    }
    return [
        line["task"]
        for line in lines(state, "planner", "order")
        if (line.get("trace"), line["trigger"]) in at_gateway & read
        and (at := (line.get("trace"), line["task"])) in started & became.keys()
        and became[at] in {one.get("snapshots") for one in commits}
    ]


def test_every_row_is_right_with_every_service_killed_once(tmp_path: Path) -> None:
    figures = demo(tmp_path, "--seconds", "60", "--kill", SERVICES)
    assert figures["verdict"]["text"].startswith("rows verified")
    tables = {table["name"]: table for table in figures["tables"]}
    accounts = tables["demo.accounts"]
    assert accounts["upkeep"]["rewrites"] >= 1
    assert accounts["after"]["delete_files"] < accounts["commits"]
    assert sum(table["upkeep"]["deletes_removed"] for table in tables.values()) >= 1
    assert followed(tmp_path)
    assert not leftovers(tmp_path)
