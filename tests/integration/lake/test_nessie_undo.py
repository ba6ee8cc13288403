"""`firnline undo` as a person types it, on Nessie with OpenID and keys that end, by the gateway of
a whole fleet: what a worker rewrote and the committer committed is read back, taken back, held, and
made again."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from firnline_demo.lake import DemoLake
from firnline_iceberg.commit.rewrite import task_ids
from firnline_iceberg.connection.connection import CatalogConnection
from firnline_iceberg.java.jvm import IcebergJvm
from firnline_iceberg.scan.planning import live_files
from firnline_local.processes.ports import free_port
from firnline_local.processes.process import run_process
from firnline_local.stack.stack import Stack, run_stack

from tests.kit.identity_server import SECRET, IdentityServer, Rules, identity_server
from tests.kit.lake.table import Table
from tests.kit.lake_pair import Pair, pair
from tests.kit.nessie import Nessie
from tests.kit.s3_server import S3Server
from tests.kit.serve_nessie import toml_of, written

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(900), pytest.mark.long]
PATIENCE_S = 240.0
OFF, ON = {"firnline.enabled": "false"}, {"firnline.enabled": "true"}
PROPERTIES = {
    "firnline.rewrite.min-fragments": "3",
    "firnline.rewrite.quiet-ms": "0",
    "firnline.rewrite.cool-down-ms": "0",
    **OFF,
}


@dataclass(frozen=True)
class Fleet:
    """`config`: of a person who comes in by the gateway."""

    stack: Stack
    config: Path
    lake: Pair

    def firnline(self, *words: str) -> tuple[int, str]:
        """Exit code, and what was said."""
        told = {
            "FIRNLINE_CONFIG": str(self.config),
            "FIRNLINE_KAFKA": self.stack.kafka,
            "FIRNLINE_CONSOLE_URI": self.stack.console_uri,
            **self.stack.state.signing_environment(),
        }
        command = [sys.executable, "-m", "firnline_cli", *words]
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=120, env={**os.environ, **told}
        )
        said = done.stdout + done.stderr
        assert SECRET not in said
        return done.returncode, said

    def done(self, *words: str) -> str:
        code, said = self.firnline(*words)
        assert code == 0, said
        return said

    def explained(self, table: Table) -> dict[str, Any]:
        """Its only partition."""
        code, said = self.firnline("explain", table.name.dotted_name, "--json")
        found = json.loads(said)["partitions"] if code == 0 else []
        return found[0] if found else {"reason": "", "words": "", "fragments": 0}

    def read_back(self, task: str) -> list[str]:
        """What came of comparisons by Iceberg's own reader."""
        lines = self.stack.state.log_path("worker").read_text().splitlines()
        found = (
            re.search(rf"action=rows_compared .*task={task} outcome=(\w+)", line) for line in lines
        )
        return [one[1] for one in found if one]


@pytest.fixture(scope="module")
def identity(store: S3Server) -> Iterator[IdentityServer]:
    with identity_server(store, Rules(60.0, 60.0)) as server:
        yield server


@pytest.fixture(scope="module")
def fleet(
    tmp_path_factory: pytest.TempPathFactory,
    store: S3Server,
    identity: IdentityServer,
    lake_jvm: IcebergJvm,
) -> Iterator[Fleet]:
    folder, port = tmp_path_factory.mktemp("undo"), free_port()
    nessie = Nessie(port, free_port(frozenset({port})), store, identity.settings())
    with run_process(nessie.command(folder / "nessie"), folder / "nessie.log"):
        services = DemoLake.open_lake(written(folder, nessie, identity))
        settings = {part: {**own, "FIRNLINE_COMPARE_SHARE": "1"}
                    for part, own in services.settings.items()}  # fmt: skip
        with run_stack(folder / "stack", services.parts, settings) as stack:
            (folder / "person").mkdir()
            config = toml_of(folder / "person", stack.gateway_uri, identity.credentials())
            properties = {"uri": stack.gateway_uri, **identity.credentials()}
            yield Fleet(
                stack, config, pair(lake_jvm, folder, CatalogConnection("lake", properties))
            )


def rewritten(table: Table) -> str:
    """The task that made the head; waited for."""
    return eventually(lambda: head_task(table), bool)


def head_task(table: Table) -> str:
    loaded = table.loaded
    return next(iter(task_ids(loaded.head("main").summary, loaded.identity.uuid)), "")


def eventually(look: Callable[[], Any], wanted: Callable[[Any], bool]) -> Any:
    deadline = time.monotonic() + PATIENCE_S
    while not wanted(found := look()):
        assert time.monotonic() < deadline, found
        time.sleep(0.3)
    return found


def switch(table: Table, properties: dict[str, str]) -> None:
    change = table.java.updateProperties()
    for name, text in properties.items():
        change.set(name, text)
    change.commit()


def state(table: Table) -> tuple[int, set[Any], list[Any]]:
    """Head, live files, and rows."""
    live = live_files(table.loaded, table.head)
    return table.head, {one.key_and_number for one in (*live.data, *live.deletes)}, table.rows()


@pytest.mark.parametrize("version", ["2", "3"])
def test_a_commit_is_taken_back_held_and_made_again(fleet: Fleet, version: str) -> None:
    namespace = f"n{uuid.uuid4().hex[:8]}"
    fleet.lake.namespace(namespace)
    table = fleet.lake.table(namespace, **PROPERTIES, **{"format-version": version})
    table.fill()
    table.upsert((1, 7), (2, 8))
    before = state(table)
    switch(table, ON)
    task = rewritten(table)
    after = state(table)
    assert (after[2], after[1] & before[1]) == (before[2], set())
    assert eventually(lambda: fleet.read_back(task), bool) == ["equal"]

    said = eventually(lambda: fleet.firnline("undo", task[:8]), lambda found: found[0] == 0)[1]
    assert "nothing was changed" in said
    assert state(table) == after
    said = fleet.done("undo", task[:8], "--yes")
    assert "undone" in said
    assert f"back to {before[0]}" in said
    assert "6 replaced files are live again" in said
    assert state(table) == before

    held = eventually(lambda: fleet.explained(table), lambda one: one["reason"] == "undone")
    assert (held["status"], "reverted by a person" in held["words"]) == ("parked", True)
    table.upsert((3, 9))
    rows = [(0, 0), (1, 7), (2, 8), (3, 9)]
    assert table.rows() == rows
    eventually(lambda: fleet.explained(table), lambda one: one["fragments"] == 6)
    assert not head_task(table), "rewritten, though it is held"
    code, said = fleet.firnline("undo", task, "--table", table.name.dotted_name, "--yes")
    assert (code, "history_hidden" in said) == (1, True), said
    assert table.rows() == rows

    before = state(table)
    fleet.done("unpark", table.name.dotted_name)
    again = rewritten(table)
    assert again
    assert state(table)[2] == rows
    said = fleet.done("undo", again, "--table", table.name.dotted_name, "--yes")
    assert "undone" in said
    assert state(table) == before
