"""The gateway changes nothing for Iceberg's REST Compatibility Kit (157 tests, 2 min)."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from firnline_local.processes.ports import free_port
from firnline_local.processes.process import run_process
from firnline_local.servers import catalog
from firnline_local.topics.topics import make_topics

from tests.integration.gateway.conftest import BUCKETS, gateway_command
from tests.kit.compatibility_kit import Outcome, run_compatibility_kit

pytestmark = [pytest.mark.stack, pytest.mark.long, pytest.mark.timeout(1800)]


def test_nothing_fails_that_does_not_fail_without_the_gateway(kafka: str, tmp_path: Path) -> None:
    make_topics(kafka, BUCKETS)
    outcomes: dict[str, dict[str, Outcome]] = {}
    for way in ("direct", "through"):
        folder = tmp_path / way
        (folder / "gateway").mkdir(parents=True)
        (folder / "reports").mkdir()
        upstream, own = free_port(), free_port()
        behind = catalog.command(folder, upstream)
        front = gateway_command(folder / "gateway", own, catalog.uri(upstream), kafka)
        with (
            run_process(behind, folder / "catalog.log"),
            run_process(front, folder / "gateway.log"),
        ):
            port = upstream if way == "direct" else own
            outcomes[way] = run_compatibility_kit(catalog.uri(port), folder / "reports")
    differ = {
        name: (outcome, outcomes["through"].get(name))
        for name, outcome in outcomes["direct"].items()
        if outcomes["through"].get(name) is not outcome
    }
    print({way: Counter(found.values()) for way, found in outcomes.items()})
    assert differ == {}
    assert list(outcomes["through"].values()).count(Outcome.PASSED) >= 140
