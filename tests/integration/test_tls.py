"""Gateway and console speak https where they are given a certificate."""

from __future__ import annotations

import os
import ssl
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import trustme
from firnline_adapters.config.tls import server_context
from firnline_domain.errors import Misconfigured
from firnline_local.processes.ports import LOOPBACK, free_port
from pyiceberg.catalog.rest import RestCatalog
from pyiceberg.schema import Schema

pytestmark = [pytest.mark.stack, pytest.mark.timeout(120)]


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    folder, ca = tmp_path_factory.mktemp("tls"), trustme.CA()
    cert = ca.issue_cert("localhost", LOOPBACK)
    ca.cert_pem.write_to_path(folder / "ca.pem")
    for number, one in enumerate(cert.cert_chain_pems):
        one.write_to_path(folder / "chain.pem", append=number > 0)
    cert.private_key_pem.write_to_path(folder / "key.pem")
    return {name: str(folder / f"{name}.pem") for name in ("ca", "chain", "key")}


@contextmanager
def served(service: str, folder: Path, certificate: dict[str, str], **more: str) -> Iterator[str]:
    """Its address, once it is ready."""
    port, log = free_port(), folder / f"{service}.log"
    environment = {
        **os.environ,
        "FIRNLINE_TLS_CERTIFICATE": certificate["chain"],
        "FIRNLINE_TLS_KEY": certificate["key"],
        "FIRNLINE_LISTEN_ADDRESS": f"{LOOPBACK}:{port}",
        "FIRNLINE_STATE_DIR": str(folder / service),
        **more,
    }
    with log.open("wb") as out:
        command = [sys.executable, "-m", f"firnline_{service}"]
        process = subprocess.Popen(command, env=environment, stdout=out, stderr=out)
    try:
        deadline = time.monotonic() + 40
        while "action=ready" not in log.read_text():
            assert process.poll() is None, log.read_text()
            assert time.monotonic() < deadline
            time.sleep(0.1)
        assert f"uri=https://{LOOPBACK}:{port}" in log.read_text()
        yield f"localhost:{port}"
    finally:
        process.terminate()
        process.wait(60)


def test_writers_commit_through_https(
    kafka: str,
    catalog_uri: str,
    namespace: str,
    certificate: dict[str, str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in ("REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE"):  # requests prefers these to its session's
        monkeypatch.delenv(name, raising=False)
    where = {"FIRNLINE_KAFKA": kafka, "FIRNLINE_UPSTREAM_URI": catalog_uri}
    with served("gateway", tmp_path, certificate, **where) as address:
        trusted = {"ssl": {"cabundle": certificate["ca"]}}
        catalog = RestCatalog("lake", uri=f"https://{address}", **trusted)
        catalog.create_table(f"{namespace}.tls", Schema())
        assert catalog.table_exists(f"{namespace}.tls")
        with pytest.raises((ConnectionError, urllib.error.URLError)):
            urllib.request.urlopen(f"http://{address}/v1/config", timeout=5)
        with pytest.raises(urllib.error.URLError, match="certificate verify failed"):
            urllib.request.urlopen(f"https://{address}/v1/config", timeout=5)


def test_the_page_comes_by_https(
    kafka: str, redis_url: str, certificate: dict[str, str], tmp_path: Path
) -> None:
    where = {"FIRNLINE_KAFKA": kafka, "FIRNLINE_REDIS": redis_url}
    trusted = ssl.create_default_context(cafile=certificate["ca"])
    with (
        served("console", tmp_path, certificate, **where) as address,
        urllib.request.urlopen(f"https://{address}/", context=trusted, timeout=10) as page,
    ):
        assert b"<html" in page.read()


def test_a_certificate_that_cannot_be_read_is_said(certificate: dict[str, str]) -> None:
    assert server_context(None, None) is None
    with pytest.raises(Misconfigured, match="FIRNLINE_TLS_CERTIFICATE is not"):
        server_context(None, certificate["key"])
    with pytest.raises(Misconfigured, match=r"FIRNLINE_TLS_CERTIFICATE=/not/there"):
        server_context("/not/there", certificate["key"])
    with pytest.raises(Misconfigured, match=r"FIRNLINE_TLS_KEY=.*ca\.pem"):
        server_context(certificate["chain"], certificate["ca"])
