"""Two hosts that run executors and share nothing with the driver but an object store."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
from firnline_local.servers.artifacts import aws_bundle, iceberg_jar, join_class_path

from tests.kit import s3_server as s3
from tests.kit.go_programs import NoGo
from tests.kit.lake_catalog import LakeCatalog, Rules, lake_catalog
from tests.kit.pods import POD_SETTINGS, PodCluster, find_pods_obstacle, pod_cluster
from tests.kit.s3_server import S3Server, s3_server
from tests.kit.spark_cluster import DRIVER, SparkCluster, reason_against, spark_cluster
from tests.kit.spark_driver import SparkDriver, spark_driver
from tests.kit.yarn import MEMORY_MB, spark_settings, yarn
from tests.kubernetes.cluster import API

CANARY = "cAnAry-spark-secret-7w"


@dataclass(frozen=True)
class World:
    """The cluster, the store, the catalog that hands out keys to it, and a driver's settings."""

    cluster: SparkCluster | PodCluster
    store: S3Server
    catalog: LakeCatalog
    folder: Path
    environment: dict[str, str]

    @property
    def bucket(self) -> Path:
        return self.store.folder / self.store.bucket

    def ours(self, ending: str = "") -> list[str]:
        """Every object that Firnline has made."""
        names = (path.name for path in self.bucket.rglob("firnline-*") if path.is_file())
        return sorted(name for name in names if name.endswith(ending))


MASTERS = ("standalone", "yarn", "kubernetes")


@pytest.fixture(scope="module", params=MASTERS)
def world(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[World]:
    find_obstacle = find_pods_obstacle if request.param == "kubernetes" else reason_against
    if why := find_obstacle():
        pytest.skip(why)
    try:
        s3.binary()
    except NoGo as error:
        pytest.skip(str(error))
    jars = (iceberg_jar(), aws_bundle())  # and the catalog's: the cluster's network has no way out
    join_class_path("catalog")
    folder = tmp_path_factory.mktemp("cluster")
    made: AbstractContextManager[SparkCluster | PodCluster]
    made, more, address = spark_cluster(folder), dict[str, str](), DRIVER
    if request.param == "yarn":
        manager = yarn(folder / "yarn")
        made = spark_cluster(folder, memory_mb=MEMORY_MB, manager=manager)
        more = spark_settings(manager)
    if request.param == "kubernetes":
        made, more, address = pod_cluster(folder / "nodes"), POD_SETTINGS, API
    with made as cluster, cluster.here(), _served(folder, address) as (store, catalog):
        properties = {**catalog.properties(), "s3.endpoint": store.endpoint}
        config = folder / "firnline.toml"
        config.write_text(_toml(properties, folder / "events", address, more))
        environment = {
            "FIRNLINE_CONFIG": str(config),
            "FIRNLINE_ICEBERG_JAR": os.pathsep.join(map(str, jars)),
            "FIRNLINE_STATE_DIR": str(folder / "state"),
            "FIRNLINE_SPARK_MASTER": cluster.master,
            "HADOOP_CONF_DIR": str(folder / "yarn"),  # read for the master `yarn` alone
            "KUBECONFIG": str(folder / "nodes/admin.conf"),  # for `k8s://` alone
            "FIRNLINE_KAFKA": "unused",
            "FIRNLINE_REDIS": "redis://unused",
            "SPARK_LOCAL_IP": address,
        }
        yield World(cluster, store, catalog, folder, environment)


@contextmanager
def _served(folder: Path, address: str) -> Iterator[tuple[S3Server, LakeCatalog]]:
    rules = Rules(auth="oauth2", token_s=3600.0, keys_s=3600.0)
    with (
        s3_server(folder / "s3", host=address) as store,
        lake_catalog(folder / "catalog", rules, store) as catalog,
    ):
        yield store, catalog


def _toml(properties: dict[str, str], events: Path, address: str, more: dict[str, str]) -> str:
    """Spark's own event log is on: what a history server would show."""
    events.mkdir()
    spark = {
        "spark.driver.host": address,
        "spark.driver.bindAddress": address,
        "spark.executor.memory": "512m",
        "spark.executor.cores": "1",
        # Executors live for some seconds here: what the JVM would compile costs more than it gives.
        "spark.executor.extraJavaOptions": "-XX:+UseSerialGC -XX:TieredStopAtLevel=1",
        "spark.eventLog.enabled": "true",
        "spark.eventLog.compress": "false",
        "spark.eventLog.dir": events.as_uri(),
        "spark.hadoop.fs.s3a.secret.key": CANARY,
        **more,
    }
    sections = {"catalogs.lake": properties, "spark": spark}
    return "\n".join(
        f"[{name}]\n" + "\n".join(f'"{key}" = "{value}"' for key, value in table.items())
        for name, table in sections.items()
    )


@pytest.fixture(scope="module")
def driver(world: World) -> Iterator[SparkDriver]:
    with spark_driver(world.environment) as made:
        yield made
