"""Catalogs of a Spark session: one for each connection, and for each prefix of it."""

from __future__ import annotations

import hashlib
import threading
from dataclasses import replace
from typing import Any

from firnline_domain.identity import TableName
from firnline_iceberg.catalogs import CatalogClients, Connections, connections_of
from firnline_iceberg.connection.connection import Catalog, CatalogConnection
from firnline_iceberg.java.api import refuse_other_prefix
from pyspark.sql import SparkSession


class SparkCatalogs:
    """The catalogs of a session. Their settings are set when a catalog is first needed: never on a
    command line."""

    def __init__(self, spark: SparkSession, catalogs: Catalog | Connections) -> None:
        """Keep the session, and open no catalog yet. Raises Misconfigured if there is no
        catalog."""
        self._spark = spark
        self._catalogs = CatalogClients(connections_of(catalogs), self._register)
        self._lock = threading.Lock()

    def name_of(self, table: TableName) -> str:
        """Return the session's name of a table's catalog; the session is active in this thread.
        Raises UnknownCatalog, OtherPrefix, py4j.protocol.Py4JJavaError."""
        return self._catalogs.client_of(table)

    def _register(self, connection: CatalogConnection) -> str:
        name = spark_name(connection)
        with self._lock:
            for setting, value in replace(connection, name=name).spark_settings().items():
                self._spark.conf.set(setting, value)
        jvm: Any = self._spark._jvm
        util = jvm.org.apache.iceberg.spark.Spark3Util
        refuse_other_prefix(connection, util.loadIcebergCatalog(self._spark._jsparkSession, name))
        return name


def spark_name(connection: CatalogConnection) -> str:
    """Return a connection's own name; with a digest if its tables are under a prefix that not every
    setting of Spark's could contain."""
    prefix = connection.properties.get("prefix", "")
    if not prefix:
        return connection.name
    return f"{connection.name}__{hashlib.sha256(prefix.encode()).hexdigest()[:12]}"
