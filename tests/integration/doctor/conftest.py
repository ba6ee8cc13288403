"""A fleet in which nothing is wrong, and the doctor's word on it with one thing changed."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from click.testing import CliRunner
from firnline_adapters.kafka.client import KafkaPublisher
from firnline_adapters.kafka.connection import KafkaConnection
from firnline_adapters.records.signing import signer_here
from firnline_cli.__main__ import main
from firnline_local.servers.java import find_java
from firnline_local.topics.topics import DEFAULT_BUCKETS, make_topics
from pyiceberg.catalog.rest import RestCatalog
from pyiceberg.schema import Schema
from pyiceberg.types import LongType, NestedField

from tests.examples import make
from tests.kit.secured_kafka import ADMIN, SecuredKafka, secured_kafka

Findings = dict[str, list[dict[str, str]]]
Doctor = Callable[..., Findings]
PRINCIPAL = "firnline-planner"


@pytest.fixture(scope="session")
def secured(servers: Path) -> Iterator[SecuredKafka]:
    with secured_kafka(servers / "doctored-kafka") as broker:
        broker.allow_all_services()
        make_topics(broker.plain(ADMIN), DEFAULT_BUCKETS)
        event = make("rewrite_committed/native")
        publisher = KafkaPublisher(broker.plain(ADMIN), DEFAULT_BUCKETS, "t", signer=signer_here())
        publisher.publish("maintenance-events", event.table.uuid, event)
        publisher.flush()
        yield broker


def with_properties(folder: Path, connection: KafkaConnection) -> dict[str, str]:
    """The variables of a connection."""
    config = folder / "kafka.properties"
    config.write_text("".join(f"{name}={one}\n" for name, one in connection.properties.items()))
    return {"FIRNLINE_KAFKA": connection.servers, "FIRNLINE_KAFKA_CONFIG": str(config)}


@pytest.fixture(scope="session")
def table(lake: RestCatalog) -> str:
    """With two rows; for whoever asks what there is."""
    lake.create_namespace("doctored")
    schema = Schema(NestedField(1, "id", LongType(), required=False))
    made = lake.create_table("doctored.orders", schema)
    made.append(pa.table({"id": [1, 2]}))
    return "doctored.orders"


@pytest.fixture
def healthy(
    secured: SecuredKafka,
    redis_url: str,
    catalog_uri: str,
    table: str,
    iceberg_jar: Path,
    tmp_path: Path,
) -> dict[str, str]:
    """The variables of a fleet in which nothing is wrong, as its administrator has them."""
    return {
        "FIRNLINE_CATALOG_URI": catalog_uri,
        **with_properties(tmp_path, secured.plain(ADMIN)),
        "FIRNLINE_REDIS": redis_url,
        "FIRNLINE_ICEBERG_JAR": str(iceberg_jar),
        "FIRNLINE_STATE_DIR": str(tmp_path / "state"),
        "FIRNLINE_SIGNING_KEYS": os.environ["FIRNLINE_SIGNING_KEYS"],
    }


def asked(environment: dict[str, str], *words: str) -> tuple[int, Findings, str]:
    """Exit code, findings by check, and all that was printed."""
    find_java.cache_clear()
    done = CliRunner().invoke(main, ["doctor", "--json", *words], env=environment)
    find_java.cache_clear()
    assert done.exception is None or isinstance(done.exception, SystemExit), done.output
    found: dict[str, Any] = json.loads(done.stdout)
    by_check: Findings = {}
    for one in found["findings"]:
        by_check.setdefault(one["check"], []).append(one)
    assert found["ok"] is (done.exit_code == 0)
    return done.exit_code, by_check, done.output


def failures(found: Findings) -> set[str]:
    """Names of the checks that have failed."""
    return {
        name for name, lines in found.items() if any(one["status"] == "failed" for one in lines)
    }
