"""What a service lacks is said at its start, in one line with cause and remedy; then it ends with
exit code 2, or waits where that may help."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from firnline_local.processes.ports import LOOPBACK, free_port

from tests.kit.picky_catalog import PickyCatalog, picky_catalog

pytestmark = [pytest.mark.stack, pytest.mark.timeout(400)]
S3 = {"s3.endpoint": "http://127.0.0.1:1", "io-impl": "org.apache.iceberg.aws.s3.S3FileIO"}


@pytest.fixture
def picky(catalog_uri: str) -> Iterator[PickyCatalog]:
    with picky_catalog(catalog_uri) as made:
        yield made


def environment(kafka: str, redis: str, jar: Path, folder: Path, **catalog: str) -> dict[str, str]:
    config = folder / "firnline.toml"
    lines = [f'"{name}" = {json.dumps(value)}' for name, value in catalog.items()]
    config.write_text("\n".join(["[catalogs.lake]", *lines, ""]))
    return {
        **os.environ,
        "FIRNLINE_KAFKA": kafka,
        "FIRNLINE_KAFKA_CONFIG": "",
        "FIRNLINE_REDIS": redis,
        "FIRNLINE_CONFIG": str(config),
        "FIRNLINE_ICEBERG_JAR": str(jar),
        "FIRNLINE_STATE_DIR": str(folder / "state"),
        "PYSPARK_PYTHON": sys.executable,
        "SPARK_LOCAL_IP": LOOPBACK,
    }


@pytest.fixture
def alone(iceberg_jar: Path, tmp_path: Path) -> Path:
    """The runtime without a bundle beside it."""
    link = tmp_path / iceberg_jar.name
    link.symlink_to(iceberg_jar)
    return link


def ended(service: str, given: dict[str, str], *before: str) -> tuple[int, list[str]]:
    """Exit code, and the lines after `starting`."""
    argv = [*before, sys.executable, "-m", f"firnline_{service}"]
    done = subprocess.run(argv, env=given, capture_output=True, text=True, timeout=180)
    lines = [one for one in done.stderr.splitlines() if f" {service} action=" in one]
    # Other tests' orders to everybody are on the same broker, signed by keys of their own.
    lines = [one for one in lines if "action=not_believed topic=operator-orders" not in one]
    assert "action=ready" not in done.stderr
    assert "cAnAry" not in done.stderr
    assert "Traceback" not in done.stderr, done.stderr
    return done.returncode, lines[1:]


@pytest.mark.parametrize("service", ["enricher", "committer", "worker"])
def test_a_catalog_that_refuses_us_ends_it(
    service: str, kafka: str, redis_url: str, alone: Path, tmp_path: Path, picky: PickyCatalog
) -> None:
    picky.wishes.secret = "good"
    given = environment(kafka, redis_url, alone, tmp_path, uri=picky.uri, token="cAnAry-token")
    code, lines = ended(service, given)
    assert (code, len(lines)) == (2, 1), lines
    assert "action=misconfigured" in lines[0]
    assert f"catalog lake at {picky.uri} refuses us: 401" in lines[0]
    assert "token or header.Authorization of [catalogs.lake]" in lines[0]


@pytest.mark.parametrize("service", ["committer", "worker"])
def test_a_bundle_that_is_missing_is_named(
    service: str, kafka: str, redis_url: str, alone: Path, tmp_path: Path, picky: PickyCatalog
) -> None:
    given = environment(kafka, redis_url, alone, tmp_path, uri=picky.uri, **S3)
    code, lines = ended(service, given)
    assert (code, len(lines)) == (2, 1), lines
    assert "needs iceberg-aws-bundle" in lines[0]
    assert "run `firnline jars --s3`" in lines[0]


@pytest.mark.parametrize("service", ["committer", "worker"])
def test_what_java_alone_lacks_is_told_by_its_first_cause(
    service: str, kafka: str, redis_url: str, alone: Path, tmp_path: Path, picky: PickyCatalog
) -> None:
    """PyIceberg has no use for this FileIO, and Java no class of that name."""
    given = environment(
        kafka, redis_url, alone, tmp_path, uri=picky.uri, **{"io-impl": "org.example.OwnFileIO"}
    )
    code, lines = ended(service, given)
    assert (code, len(lines)) == (2, 1), lines
    assert "catalog lake, by Java:" in lines[0]
    assert "org.example.OwnFileIO" in lines[0]
    assert "exception str() failed" not in lines[0]


@pytest.mark.parametrize("service", ["committer", "worker"])
def test_a_user_without_a_name_is_told(
    service: str, kafka: str, redis_url: str, alone: Path, tmp_path: Path, catalog_uri: str
) -> None:
    given = environment(kafka, redis_url, alone, tmp_path, uri=catalog_uri)
    script = "import os, runpy, sys; os.getuid = lambda: 54321; "
    script += f"runpy.run_module('firnline_{service}', run_name='__main__')"
    done = subprocess.run(
        [sys.executable, "-c", script], env=given, capture_output=True, text=True, timeout=180
    )
    assert done.returncode == 2, done.stderr
    assert "user 54321 has no entry in /etc/passwd" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_state_directory_that_nobody_can_write_is_told(
    kafka: str, redis_url: str, alone: Path, tmp_path: Path, catalog_uri: str
) -> None:
    given = environment(kafka, redis_url, alone, tmp_path, uri=catalog_uri)
    (tmp_path / "file").touch()
    code, lines = ended("worker", given | {"FIRNLINE_STATE_DIR": str(tmp_path / "file" / "x")})
    assert (code, len(lines)) == (2, 1), lines
    assert "FIRNLINE_STATE_DIR=" in lines[0]
    assert "Not a directory" in lines[0]


@contextmanager
def running(service: str, given: dict[str, str], log: Path) -> Iterator[subprocess.Popen[bytes]]:
    with log.open("wb") as out:
        process = subprocess.Popen(
            [sys.executable, "-m", f"firnline_{service}"], env=given, stdout=out, stderr=out
        )
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def await_line(log: Path, text: str, process: subprocess.Popen[bytes]) -> str:
    deadline = time.monotonic() + 60
    while not (found := [one for one in log.read_text().splitlines() if text in one]):
        assert process.poll() is None, log.read_text()
        assert time.monotonic() < deadline, log.read_text()
        time.sleep(0.1)
    return found[0]


@pytest.mark.parametrize("service", ["enricher", "committer", "worker"])
def test_a_catalog_that_is_away_is_waited_for_and_sigterm_ends_the_wait(
    service: str, kafka: str, redis_url: str, alone: Path, tmp_path: Path
) -> None:
    """Of a worker the JVM of Spark has begun by then."""
    uri = f"http://{LOOPBACK}:{free_port()}"
    given, log = environment(kafka, redis_url, alone, tmp_path, uri=uri), tmp_path / "log"
    with running(service, given, log) as process:
        line = await_line(log, "catalog_unreached", process)
        assert "WARNING" in line
        assert "then=waiting" in line
        assert "uri of [catalogs.lake]" in line
        assert process.poll() is None
        process.send_signal(signal.SIGTERM)
        assert process.wait(20) == 0
    # Before: Python itself writes a traceback when two threads fork at once (a lock of its own).
    ended_by = log.read_text().partition("catalog_unreached")[2]
    assert "signal received during startup" in ended_by
    assert "Traceback" not in ended_by
