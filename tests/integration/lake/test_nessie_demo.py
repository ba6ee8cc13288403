"""The demo on Nessie, with OpenID, and keys to the storage that end after a minute."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from firnline_iceberg.connection.connection import CatalogConnection
from firnline_local.processes.ports import free_port
from firnline_local.processes.process import run_process
from pyiceberg.catalog.rest import RestCatalog

from tests.kit.identity_server import SECRET, Rules, identity_server
from tests.kit.nessie import Nessie
from tests.kit.s3_server import S3Server
from tests.kit.serve_nessie import written

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(900), pytest.mark.long]


def test_every_row_is_right_on_nessie(tmp_path: Path, store: S3Server) -> None:
    with identity_server(store, Rules(60.0, 60.0)) as identity:
        port = free_port()
        nessie = Nessie(port, free_port(frozenset({port})), store, identity.settings())
        with run_process(nessie.command(tmp_path / "nessie"), tmp_path / "nessie.log"):
            config = written(tmp_path, nessie, identity)
            command = [sys.executable, "-m", "firnline_cli", "demo", "--json"]
            options = ["--state", str(tmp_path / "demo"), "--config", str(config)]
            more = ["--seconds", "70", "--kill", "worker,committer"]
            done = subprocess.run(
                [*command, *options, *more],
                capture_output=True,
                text=True,
                timeout=800,
                env={**os.environ, "FIRNLINE_COMPARE_SHARE": "1"},
            )
            assert done.returncode == 0, done.stderr[-6000:]
            reached = CatalogConnection("lake", {"uri": nessie.uri, **identity.credentials()})
            assert RestCatalog("lake", **reached.pyiceberg_properties()).list_namespaces() == []
            tokens = identity.rules.given
    figures = json.loads(done.stdout)
    tables = figures["tables"]
    rows = sum(table["after"]["rows"] for table in tables)
    said = f"rows verified: {rows:,} rows of 3 tables, none differs"
    assert figures["verdict"]["text"] == said
    assert said in done.stderr
    for table in tables:  # what is compared is there
        assert table["commits"] > 1, table
        assert table["after"]["rows"] > 0, table
        assert not any(table["difference"].values()), table
    assert sum(table["upkeep"]["rewrites"] for table in tables) >= 2
    compared = (tmp_path / "demo" / "logs" / "worker.log").read_text()
    assert "outcome=differ" not in compared
    assert len(tokens) > 1
    for path in (tmp_path / "demo").rglob("*"):
        if path.is_file():
            text = path.read_bytes()
            assert SECRET.encode() not in text, path
            assert not any(one.encode() in text for one in tokens), path
