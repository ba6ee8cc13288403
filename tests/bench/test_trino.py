"""The Trino peer without its 821 MB: its tarball, its settings, its protocol."""

from __future__ import annotations

import io
import json
import tarfile
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest
from firnline_local.processes.ports import free_port

from bench.rewrite.trino import QueryFailed, Server, unpack


@pytest.fixture
def archive(tmp_path):
    """The iceberg plugin's jar is a hard link into another's, as in the real one."""
    path = tmp_path / "server.tar.gz"
    with tarfile.open(path, "w:gz") as tar:
        body = b"a jar"
        for name in ("s/plugin/hive/shared.jar", "s/lib/main.jar"):
            member = tarfile.TarInfo(name)
            member.size = len(body)
            tar.addfile(member, io.BytesIO(body))
        link = tarfile.TarInfo("s/plugin/iceberg/shared.jar")
        link.type, link.linkname = tarfile.LNKTYPE, "s/plugin/hive/shared.jar"
        tar.addfile(link)
    return path


def test_only_the_iceberg_plugin_stays_and_is_whole(archive, tmp_path):
    home = tmp_path / "unpacked"
    unpack(archive, home)
    assert [one.name for one in (home / "plugin").iterdir()] == ["iceberg"]
    assert (home / "plugin" / "iceberg" / "shared.jar").read_bytes() == b"a jar"
    assert (home / "lib" / "main.jar").exists()
    assert sorted(one.name for one in tmp_path.iterdir()) == ["server.tar.gz", "unpacked"]


def server(folder: Path, port: int) -> Server:
    return Server(Path("/trino"), Path("/jdk/bin/java"), folder, port, "6g", 2, "http://lake")


def test_it_is_told_its_cores_its_heap_and_to_stay_on_loopback(tmp_path):
    command = server(tmp_path, 18080).command()
    command.prepare()
    assert {"-Xmx6g", "-XX:ActiveProcessorCount=2", "-Dnode.bind-ip=127.0.0.1"} <= set(command.argv)
    assert (
        "iceberg.rest-catalog.uri=http://lake\n"
        in (tmp_path / "catalogs" / "lake.properties").read_text()
    )
    assert "http-server.http.port=18080\n" in (tmp_path / "config.properties").read_text()


class Coordinator(BaseHTTPRequestHandler):
    """Two pages of results for any query; an error for one that says so."""

    server: Any

    def do_POST(self):
        query = self.rfile.read(int(self.headers["Content-Length"])).decode()
        user = self.headers["X-Trino-User"]
        self._answer({"nextUri": f"{self.server.url}/{'bad' if 'bad' in query else 'good'}/{user}"})

    def do_GET(self):
        if self.path == "/v1/info":
            self._answer({"starting": self.server.starting})
        elif self.path.startswith("/bad"):
            self._answer({"error": {"message": "no such table"}, "stats": {}})
        elif self.path.startswith("/good"):
            self._answer({"nextUri": f"{self.server.url}/last"})
        else:
            self._answer({"stats": {"cpuTimeMillis": 1500}, "data": self.server.rows})

    def log_message(self, *_):
        """Quiet."""

    def _answer(self, body):
        self.send_response(200)
        self.end_headers()
        self.wfile.write(json.dumps(body).encode())


@pytest.fixture
def coordinator():
    served: Any
    with HTTPServer(("127.0.0.1", 0), Coordinator) as served:
        served.url, served.starting = f"http://127.0.0.1:{served.server_port}", True
        served.rows = []
        threading.Thread(target=served.serve_forever, daemon=True).start()
        yield served
        served.shutdown()


def test_a_query_is_followed_to_its_end(coordinator, tmp_path):
    found = server(tmp_path, coordinator.server_port).run("ALTER TABLE a EXECUTE optimize")
    assert found == {"cpuTimeMillis": 1500}


def test_a_query_that_fails_says_why(coordinator, tmp_path):
    with pytest.raises(QueryFailed, match="no such table"):
        server(tmp_path, coordinator.server_port).run("bad")


def test_it_is_ready_once_its_node_has_announced_itself(coordinator, tmp_path):
    ready = server(tmp_path, coordinator.server_port).command().ready
    coordinator.rows = [["bench"]]
    assert not ready()
    coordinator.starting, coordinator.rows = False, []
    assert not ready()
    coordinator.rows = [["bench"]]
    assert ready()


def test_nobody_listens_yet(tmp_path):
    assert not server(tmp_path, free_port()).command().ready()
