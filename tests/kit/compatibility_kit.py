"""Iceberg's REST Compatibility Kit against any catalog: its tests from Maven, by JUnit's console.

The kit deletes what it finds and trips over leftovers: give it a catalog of its own, with an empty
warehouse."""

from __future__ import annotations

import os
import subprocess
from enum import StrEnum
from pathlib import Path
from xml.etree import ElementTree

from firnline_local.servers.artifacts import (
    PinnedArtifact,
    cache_root,
    fetch_jars,
    fetch_pins,
)
from firnline_local.servers.java import find_java
from firnline_local.servers.repository import repository_root

LOCK = Path(__file__).with_suffix(".lock")
SUITES = (
    "org.apache.iceberg.rest.RESTCompatibilityKitCatalogTests",
    "org.apache.iceberg.rest.RESTCompatibilityKitViewCatalogTests",
)
TIMEOUT_S = 900.0


class Outcome(StrEnum):
    """What came of one test of the kit."""

    PASSED = "passed"
    FAILED = "failed"
    SKIPPED = "skipped"  # disabled, or aborted by an assumption


def run_compatibility_kit(uri: str, folder: Path) -> dict[str, Outcome]:
    """Run the kit against a catalog; reports are kept in `folder`. Return the outcome of each test,
    by class and name. Raises AssertionError with the kit's own output if it reports nothing."""
    pins = [PinnedArtifact(*line.split()) for line in LOCK.read_text().splitlines()]
    jars = [*fetch_jars("catalog"), *fetch_pins(pins, cache_root(), repository_root)]
    settings = {
        "rck.local": "false",
        "rck.uri": uri,
        "uri": uri,
        "rck.requires-namespace-create": "true",
    }
    command = [
        find_java(), "-Xmx512m", *(f"-D{name}={value}" for name, value in settings.items()),
        "-cp", os.pathsep.join(map(str, jars)),
        "org.junit.platform.console.ConsoleLauncher", "execute",
        *(word for suite in SUITES for word in ("--select-class", suite)),
        "--config", "rck.local=false", "--details", "none", "--reports-dir", str(folder),
    ]  # fmt: skip
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=TIMEOUT_S, check=False, cwd=folder
    )
    found = {
        f"{case.attrib['classname'].rpartition('.')[2]}.{case.attrib['name']}": outcome_of(case)
        for report in folder.glob("TEST-*.xml")
        for case in ElementTree.parse(report).iter("testcase")
    }
    assert found, done.stdout[-3000:] + done.stderr[-3000:]
    return found


def outcome_of(case: ElementTree.Element) -> Outcome:
    """Return the outcome of a test in JUnit's report."""
    if case.find("failure") is not None or case.find("error") is not None:
        return Outcome.FAILED
    return Outcome.PASSED if case.find("skipped") is None else Outcome.SKIPPED
