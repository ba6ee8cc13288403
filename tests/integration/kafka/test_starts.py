"""Each service on a Kafka that does not answer, or does not let it in: it says why, and is not
ready."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path

import pytest
from firnline_adapters.kafka.connection import KafkaConnection
from firnline_local.processes.ports import LOOPBACK, free_port
from firnline_local.stack.parts import SERVICES

from tests.kit.long_run import mark_long
from tests.kit.secured_kafka import PASSWORDS, PREFIX, SecuredKafka

pytestmark = [pytest.mark.stack, pytest.mark.timeout(90)]
NOBODY = "http://127.0.0.1:1"
# Each service begins in the same way.
REFUSED = mark_long(SERVICES, but=("worker",))
WAITING = mark_long([one for one in SERVICES if one != "gateway"], but=("committer",))


def environment(folder: Path, connection: KafkaConnection, metrics: int) -> dict[str, str]:
    config = folder / "kafka.properties"
    config.write_text("".join(f"{name}={one}\n" for name, one in connection.properties.items()))
    return {
        **os.environ,
        "FIRNLINE_KAFKA": connection.servers,
        "FIRNLINE_KAFKA_CONFIG": str(config),
        "FIRNLINE_UPSTREAM_URI": NOBODY,
        "FIRNLINE_CATALOG_URI": NOBODY,
        "FIRNLINE_REDIS": "redis://127.0.0.1:1/0",
        "FIRNLINE_ICEBERG_JAR": "/not/there.jar",
        "FIRNLINE_STATE_DIR": str(folder / "state"),
        "FIRNLINE_LISTEN_ADDRESS": f"{LOOPBACK}:{free_port(frozenset({metrics}))}",
        "FIRNLINE_METRICS_ADDRESS": f"{LOOPBACK}:{metrics}",
    }


def ended(folder: Path, service: str, connection: KafkaConnection) -> tuple[int, list[str]]:
    """Exit code and lines of a service that ends by itself."""
    done = subprocess.run(
        [sys.executable, "-m", f"firnline_{service}"],
        env=environment(folder, connection, free_port()),
        capture_output=True,
        text=True,
        timeout=30,
    )
    assert "cAnAry" not in done.stderr
    assert "action=ready" not in done.stderr
    return done.returncode, [
        one for one in done.stderr.splitlines() if "action=starting" not in one
    ]


@pytest.mark.parametrize("service", REFUSED)
def test_a_wrong_password_ends_it(secured: SecuredKafka, tmp_path: Path, service: str) -> None:
    user = f"{PREFIX}{service}"
    code, lines = ended(tmp_path, service, secured.plain(user, PASSWORDS[user] + "x"))
    assert code == 2
    assert len(lines) == 1, lines
    assert f"ERROR {service} action=misconfigured" in lines[0]
    assert "refuses us" in lines[0]
    assert "see sasl.* in FIRNLINE_KAFKA_CONFIG" in lines[0]


@pytest.mark.parametrize("service", REFUSED)
def test_lacking_rights_end_it(secured: SecuredKafka, tmp_path: Path, service: str) -> None:
    code, lines = ended(tmp_path, service, secured.plain(f"{PREFIX}local"))
    assert code == 2
    assert lines
    assert all("firnline kafka-acls" in one for one in lines)


def answer(metrics: int, path: str) -> tuple[int, dict[str, str]]:
    try:
        with urllib.request.urlopen(f"http://{LOOPBACK}:{metrics}/{path}", timeout=10) as got:
            return got.status, json.load(got)
    except urllib.error.HTTPError as error:
        return error.code, json.load(error)


def end(process: subprocess.Popen[bytes]) -> int:
    """Its exit code after SIGTERM; the gateway takes up to 10 s to flush."""
    process.send_signal(signal.SIGTERM)
    try:
        return process.wait(30)
    finally:
        process.kill()


@pytest.mark.parametrize("service", WAITING)
def test_where_nobody_answers_it_waits_and_is_not_ready(tmp_path: Path, service: str) -> None:
    metrics, away = free_port(), KafkaConnection(f"{LOOPBACK}:1")
    log = tmp_path / "log"
    with log.open("wb") as out:
        process = subprocess.Popen(
            [sys.executable, "-m", f"firnline_{service}"],
            env=environment(tmp_path, away, metrics),
            stdout=out,
            stderr=out,
        )
    try:
        deadline = time.monotonic() + 40
        while "kafka_unreached" not in log.read_text():
            assert process.poll() is None, log.read_text()
            assert time.monotonic() < deadline
            time.sleep(0.1)
        assert answer(metrics, "healthz") == (200, {"service": "ok"})
        status, said = answer(metrics, "readyz")
        assert (status, said["service"]) == (503, "not serving")
        assert process.poll() is None
        assert "action=ready" not in log.read_text()
        line = next(one for one in log.read_text().splitlines() if "kafka_unreached" in one)
        assert "FIRNLINE_KAFKA names the brokers" in line
        assert "then=waiting" in line
    finally:
        end(process)


def test_the_gateway_serves_and_says_that_kafka_is_away(tmp_path: Path) -> None:
    """Writers come first; `readyz` is 503 here for want of a catalog alone."""
    metrics, log = free_port(), tmp_path / "log"
    with log.open("wb") as out:
        process = subprocess.Popen(
            [sys.executable, "-m", "firnline_gateway"],
            env=environment(tmp_path, KafkaConnection(f"{LOOPBACK}:1"), metrics),
            stdout=out,
            stderr=out,
        )
    try:
        deadline = time.monotonic() + 40
        while "action=ready" not in log.read_text():
            assert process.poll() is None, log.read_text()
            assert time.monotonic() < deadline
            time.sleep(0.1)
        assert 'then="serving without it"' in log.read_text()
        status, said = answer(metrics, "readyz")
        assert (status, said["service"]) == (503, "ok")
        assert "Connection refused" in said["catalog"]
        assert f"{LOOPBACK}:1" in said["kafka"]
    finally:
        assert end(process) == 0
