"""Where the demo's tables are."""

from __future__ import annotations

from pathlib import Path

import pytest
from firnline_adapters.kafka.connection import KafkaConnection
from firnline_demo import lake, run
from firnline_demo.lake import DemoLake
from firnline_domain.commits.load_header import MARK
from firnline_domain.errors import Misconfigured
from firnline_local.stack.parts import GATEWAY, SERVICES

URI, SECRET = "http://catalog.example/iceberg", "cAnAry-demo"
FILE = f'[catalogs.my-lake]\nuri = "{URI}"\ncredential = "me:{SECRET}"\n'


class Answering:
    """A catalog that says this of itself."""

    def __init__(self, name: str, **properties: str) -> None:
        self.name, self.properties = name, {**properties, "warehouse": "s3://lake/wh"}


@pytest.fixture
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(lake, "RestCatalog", Answering)
    path = tmp_path / "lake.toml"
    path.write_text(FILE)
    return path


def test_without_a_file_it_is_the_embedded_catalog() -> None:
    found = DemoLake.open_lake(None)
    assert (found.parts, found.settings, found.namespace) == (None, {}, "demo")


def test_services_read_the_file_and_find_the_catalog_behind_the_gateway(config: Path) -> None:
    found = DemoLake.open_lake(config)
    assert found.parts is not None
    assert "catalog" not in found.parts
    assert set(found.settings) == set(SERVICES)
    one = found.settings["worker"]
    assert one["FIRNLINE_CATALOG__MY_LAKE__URI"] == GATEWAY
    assert one["FIRNLINE_CATALOG__MY_LAKE__FIRNLINE__UPSTREAM_URI"] == URI
    assert one["FIRNLINE_CONFIG"] == str(config)
    assert "iceberg-aws-bundle" in one["SPARK_DIST_CLASSPATH"]


def test_secrets_stay_in_the_file(config: Path) -> None:
    found = DemoLake.open_lake(config)
    assert SECRET not in f"{found.settings} {found!r}"


def test_each_run_has_a_namespace_of_its_own(config: Path) -> None:
    """A lake may have a namespace `demo` already."""
    assert DemoLake.open_lake(config).namespace != DemoLake.open_lake(config).namespace != "demo"


def test_writers_are_not_counted_as_our_services(config: Path) -> None:
    made = DemoLake.open_lake(config)
    assert not set(made.writer_catalog("http://gateway").properties) & set(MARK)
    assert not [
        name for name in made.spark_settings("http://gateway") if name.endswith(tuple(MARK))
    ]


def test_a_file_with_a_broker_is_refused(config: Path) -> None:
    config.write_text(FILE + '[kafka]\nbootstrap.servers = "b:9092"\n')
    with pytest.raises(Misconfigured, match="take \\[kafka\\] out"):
        DemoLake.open_lake(config)


def test_a_running_fleet_is_what_the_environment_names(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FIRNLINE_CATALOG__LAKE__URI", "http://gateway:8181")
    monkeypatch.setenv("FIRNLINE_CATALOG__LAKE__S3__ENDPOINT", "http://s3:7070")
    monkeypatch.setenv("FIRNLINE_ICEBERG_JAR", "/opt/iceberg/a.jar:/opt/iceberg/b.jar")
    monkeypatch.setenv("FIRNLINE_KAFKA", "kafka:9092")
    monkeypatch.setenv("FIRNLINE_SIGNING_KEYS", "off")
    monkeypatch.setattr(run, "run_stack", None)  # nothing is started
    found = DemoLake.of_running_fleet()
    assert (found.name, found.class_path) == ("lake", "/opt/iceberg/a.jar:/opt/iceberg/b.jar")
    assert found.namespace != DemoLake.of_running_fleet().namespace
    with run.open_fleet(found, Path("unused")) as fleet:
        assert (fleet.gateway_uri, fleet.stack) == ("http://gateway:8181", None)
        assert isinstance(fleet.kafka, KafkaConnection)
        assert fleet.kafka.servers == "kafka:9092"
        settings = found.spark_settings(fleet.gateway_uri)
    assert settings["spark.sql.catalog.lake.s3.endpoint"] == "http://s3:7070"
