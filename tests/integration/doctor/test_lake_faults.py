"""Faults of catalogs and object stores: a real S3 server, and the reference catalog behind a proxy
that is told what to ask for."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from urllib.request import urlopen

import pytest
import trustme
from firnline_local.servers.artifacts import cache_root, fetch_pins, read_pins
from firnline_local.servers.repository import repository_root

from tests.integration.doctor.conftest import asked, failures
from tests.kit.long_run import mark_long
from tests.kit.picky_catalog import PickyCatalog, picky_catalog
from tests.kit.s3_server import S3Server, s3_server
from tests.kit.tls_terminator import tls_before

pytestmark = [pytest.mark.stack, pytest.mark.timeout(180)]
SECRET = "cAnAry-client-secret"
Properties = dict[str, str]


@dataclass(frozen=True)
class Lake:
    """A catalog whose tables lie in S3."""

    catalog: PickyCatalog
    store: S3Server
    ca: trustme.CA
    tls: int
    folder: Path


@pytest.fixture(scope="module")
def store(servers: Path) -> Iterator[S3Server]:
    with s3_server(servers / "doctored-s3") as made:
        yield made


@pytest.fixture(scope="module")
def served(catalog_uri: str, table: str, store: S3Server) -> Iterator[PickyCatalog]:
    """The table of the reference catalog, its metadata files in S3."""
    with urlopen(f"{catalog_uri}/v1/namespaces/doctored/tables/orders") as answer:
        loaded = json.load(answer)
    local = loaded["metadata"]["location"]
    with picky_catalog(catalog_uri) as made:
        for path in Path(local.removeprefix("file:")).glob("metadata/*"):
            body = path.read_bytes()
            if path.name.endswith(".json"):
                body = body.replace(local.encode(), f"s3://{store.bucket}/orders".encode())
            store.put(f"orders/metadata/{path.name}", body)
        made.wishes.moved = {local: f"s3://{store.bucket}/orders"}
        yield made


@pytest.fixture
def remote(served: PickyCatalog, store: S3Server, tmp_path: Path) -> Iterator[Lake]:
    wishes = served.wishes
    wishes.warehouse, wishes.secret = "prod", SECRET
    before = (dict(wishes.moved), store.bucket)
    ca = trustme.CA()
    with tls_before(ca, "127.0.0.1", served.port, "catalog") as port:
        yield Lake(served, store, ca, port, tmp_path)
    wishes.moved, wishes.denied, wishes.ahead_s = before[0], set(), 0.0


@pytest.fixture
def properties(remote: Lake) -> Properties:
    """What firnline.toml says of it where nothing is wrong."""
    return {
        "uri": remote.catalog.uri,
        "warehouse": "prod",
        "credential": f"doctor:{SECRET}",
        **remote.store.properties,
        **remote.store.new_keys().properties(),
    }


@pytest.fixture
def environment(healthy: dict[str, str]) -> dict[str, str]:
    """As an enricher, a worker and a committer have it, with the bundle of AWS."""
    aws = next(one for one in read_pins("bundles") if "aws" in one.path)
    (bundle,) = fetch_pins([aws], cache_root(), repository_root)
    jars = f"{healthy['FIRNLINE_ICEBERG_JAR']}{os.pathsep}{bundle}"
    return healthy | {"FIRNLINE_CATALOG_URI": "", "FIRNLINE_ICEBERG_JAR": jars}


def configured(folder: Path, properties: Properties) -> dict[str, str]:
    config = folder / "firnline.toml"
    lines = [f'"{name}" = {json.dumps(value)}' for name, value in properties.items()]
    config.write_text("\n".join(["[catalogs.lake]", *lines, ""]))
    return {"FIRNLINE_CONFIG": str(config)}


def wrong_warehouse(given: Properties, lake: Lake) -> Properties:
    return given | {"warehouse": "test"}


def no_warehouse(given: Properties, lake: Lake) -> Properties:
    return {name: one for name, one in given.items() if name != "warehouse"}


def expired_secret(given: Properties, lake: Lake) -> Properties:
    return given | {"credential": "doctor:cAnAry-of-last-year"}


def wrong_token(given: Properties, lake: Lake) -> Properties:
    return no_credential(given) | {"token": "cAnAry-token"}


def no_credential(given: Properties) -> Properties:
    return {name: one for name, one in given.items() if name != "credential"}


def unknown_ca(given: Properties, lake: Lake) -> Properties:
    return given | {"uri": f"https://localhost:{lake.tls}"}


def nobody_there(given: Properties, lake: Lake) -> Properties:
    return given | {"uri": "http://127.0.0.1:1"}


def denied(given: Properties, lake: Lake) -> Properties:
    lake.catalog.wishes.denied = {"/namespaces/doctored/tables"}
    return given


def table_denied(given: Properties, lake: Lake) -> Properties:
    lake.catalog.wishes.denied = {"/tables/orders"}
    return given


def clock_ahead(given: Properties, lake: Lake) -> Properties:
    lake.catalog.wishes.ahead_s = -3610.0
    return given


def dead_keys(given: Properties, lake: Lake) -> Properties:
    lake.store.drop(given["s3.access-key-id"])
    return given


def wrong_secret_key(given: Properties, lake: Lake) -> Properties:
    return given | {"s3.secret-access-key": "cAnAry-secret-key"}


def read_only(given: Properties, lake: Lake) -> Properties:
    """A right to read and list alone."""
    lake.store.allow("s3:GetObject", "s3:ListBucket")
    return given


def no_delete(given: Properties, lake: Lake) -> Properties:
    lake.store.allow("s3:GetObject", "s3:ListBucket", "s3:PutObject")
    return given


def bucket_missing(given: Properties, lake: Lake) -> Properties:
    (old,) = lake.catalog.wishes.moved
    lake.catalog.wishes.moved = {old: "s3://lost/orders"}
    return given


def wrong_endpoint(given: Properties, lake: Lake) -> Properties:
    return given | {"s3.endpoint": "http://127.0.0.1:1"}


@dataclass(frozen=True)
class Fault:
    plant: Callable[[Properties, Lake], Properties]
    fails: tuple[str, ...]
    found: str
    remedy: str


CONFIG, READ, WRITE = ("catalog.lake.config",), ("storage.lake.read",), ("storage.lake.write",)
JAVA = ("java.lake",)
FAULTS = {
    "wrong warehouse": Fault(wrong_warehouse, CONFIG, "test", "warehouse of [catalogs.lake]"),
    "no warehouse": Fault(no_warehouse, CONFIG, "specify", "warehouse of [catalogs.lake]"),
    "expired secret": Fault(expired_secret, CONFIG, "expired", "credential"),
    "wrong token": Fault(wrong_token, CONFIG, "401", "token"),
    "unknown CA": Fault(unknown_ca, CONFIG, "certificate verify failed", "ssl.cabundle"),
    "nobody there": Fault(nobody_there, CONFIG, "refused", "uri of [catalogs.lake]"),
    "namespace denied": Fault(denied, ("catalog.lake.list",), "403", "give the principal"),
    "table denied": Fault(table_denied, ("catalog.lake.load",), "403", "give the principal"),
    "clock": Fault(clock_ahead, ("clock.catalog.lake",), "our clock is 36", "set the clock"),
    "ended keys": Fault(dead_keys, (*READ, *JAVA), "read in s3://lake", "s3.access-key-id"),
    "wrong key": Fault(wrong_secret_key, (*READ, *JAVA), "read in", "s3.secret-access-key"),
    "read-only bucket": Fault(read_only, WRITE, "write in s3://lake", "the right to write"),
    "no right to delete": Fault(no_delete, WRITE, "delete in s3://lake", "the right to delete"),
    "missing bucket": Fault(bucket_missing, (*READ, *JAVA), "s3://lost", "bucket"),
    "wrong endpoint": Fault(
        wrong_endpoint, (*READ, "clock.storage.lake", *JAVA), "no answer within", "s3.endpoint"
    ),
}
OF = ("--service", "enricher", "--service", "committer")


def test_nothing_is_wrong_on_s3_where_nothing_is(
    environment: dict[str, str], properties: Properties, tmp_path: Path
) -> None:
    code, found, _ = asked(environment | configured(tmp_path, properties), *OF)
    wrong = {name: found[name] for name in failures(found)}
    assert (code, json.dumps(wrong)) == (0, "{}")
    assert found["storage.lake.parts"][0]["status"] == "ok"
    assert found["java.lake"][0]["status"] == "ok"


@pytest.mark.parametrize("name", mark_long(FAULTS, but=list(FAULTS)[:2]))
def test_a_fault_of_the_lake_is_found(
    name: str, environment: dict[str, str], properties: Properties, remote: Lake, tmp_path: Path
) -> None:
    fault = FAULTS[name]
    given = configured(tmp_path, fault.plant(properties, remote))
    try:
        code, found, printed = asked(environment | given, *OF)
    finally:
        remote.store.allow("s3:*")
    assert (code, failures(found)) == (1, set(fault.fails))
    lines = [one for check in fault.fails for one in found[check] if one["status"] == "failed"]
    assert any(fault.found in one["found"] for one in lines), lines
    assert any(fault.remedy in one["remedy"] for one in lines), lines
    assert "cAnAry" not in printed
    assert properties["s3.secret-access-key"] not in printed


def test_a_bundle_that_is_missing_is_named(
    environment: dict[str, str], properties: Properties, tmp_path: Path
) -> None:
    alone = tmp_path / "iceberg-spark-runtime-4.1_2.13-1.12.0.jar"
    alone.symlink_to(environment["FIRNLINE_ICEBERG_JAR"].split(os.pathsep)[0])
    given = {**configured(tmp_path, properties), "FIRNLINE_ICEBERG_JAR": str(alone)}
    code, found, _ = asked(environment | given, *OF)
    assert (code, failures(found)) == (1, {"java.lake"})
    assert "iceberg-aws-bundle" in found["java.lake"][0]["found"]
    assert "firnline jars --s3" in found["java.lake"][0]["remedy"]


def test_a_commit_that_no_gateway_has_seen_is_told(healthy: dict[str, str]) -> None:
    """The catalog's own address instead of the gateway's."""
    code, found, _ = asked(healthy, "--write", "--service", "enricher")
    wrong = {name: found[name][0]["found"] for name in failures(found)}
    assert (code, list(wrong)) == (1, ["events.lake"]), wrong
    assert found["catalog.lake.commit"][0]["status"] == "ok"
    assert "is the gateway's, not the catalog's" in found["events.lake"][0]["remedy"]


@pytest.mark.skipif(os.getuid() != 0, reason="mounts a small file system")
def test_a_full_state_directory_is_told(healthy: dict[str, str], tmp_path: Path) -> None:
    script = f"mount -t tmpfs -o size=2m none {tmp_path} && exec {sys.executable} -m firnline_cli"
    argv = ["unshare", "-m", "sh", "-c", f"{script} doctor --json --service gateway"]
    given = {**os.environ, **healthy, "FIRNLINE_STATE_DIR": str(tmp_path / "state")}
    given["FIRNLINE_KAFKA"] = given["FIRNLINE_KAFKA_CONFIG"] = ""  # it was below the mount
    done = subprocess.run(argv, env=given, capture_output=True, text=True, timeout=60)
    found = {one["check"]: one for one in json.loads(done.stdout)["findings"]}
    assert found["host.state"]["status"] == "failed"
    assert "it is full" in found["host.state"]["found"]
