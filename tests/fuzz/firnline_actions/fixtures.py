"""What trials run on."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from firnline_fuzz.maker import Maker
from firnline_iceberg.connection.connection import CatalogConnection
from firnline_iceberg.java.api import rest_catalog
from firnline_iceberg.java.jvm import IcebergJvm
from firnline_iceberg.table.catalog_client import Tables
from firnline_standalone.bootstrap import keep_apart

from firnline_actions.crashes import Catalog, Fuse
from firnline_actions.runs import Runner
from firnline_actions.trials import Ground

NAME = "meddled"  # the product's catalog, by way of somebody who kills it


@pytest.fixture
def ground(
    fuzz_jvm: IcebergJvm,
    catalog_uri: str,
    iceberg_jar: Path,
    spark: Any,
    namespace: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[Ground]:
    fuse = Fuse()
    with Catalog(catalog_uri, fuse) as catalog, fuse.installed():
        thread = threading.Thread(target=catalog.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        of_spark = f"spark.sql.catalog.{NAME}"
        spark.conf.set(of_spark, "org.apache.iceberg.spark.SparkCatalog")
        spark.conf.set(f"{of_spark}.type", "rest")
        spark.conf.set(f"{of_spark}.uri", catalog.uri)
        spark.conf.set(f"{of_spark}.cache-enabled", "false")
        spark.conf.set(f"{of_spark}.rest-metrics-reporting-enabled", "false")
        keep_apart(fuzz_jvm)
        reader = spark.newSession()
        java = rest_catalog(fuzz_jvm.jvm, catalog_uri)
        connection = CatalogConnection(NAME, {"uri": catalog.uri})
        runner = Runner(connection, fuzz_jvm, spark, iceberg_jar, tmp_path)
        maker = Maker(fuzz_jvm.jvm, java, namespace, 2)
        yield Ground(maker, catalog, fuse, runner, Tables(catalog_uri), reader)
        catalog.shutdown()
        thread.join()
