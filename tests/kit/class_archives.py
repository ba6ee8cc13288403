"""Make a JAVA_HOME whose JVMs start from archives of their classes: python -m
tests.kit.class_archives FOLDER.

The tests start Spark, brokers, catalogs and small JVMs some hundred times, and loading classes took
half of the CPU of each start. A JVM that an archive does not fit starts without it: with another
class path, of another storage say, or of another version. `make` calls this once, before the tests:
their workers make no archive.
"""

from __future__ import annotations

import logging
import os
import shutil
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer, Producer
from firnline_iceberg.java.api import rest_catalog
from firnline_iceberg.java.jvm import IcebergJvm
from firnline_local.processes.ports import free_port
from firnline_local.processes.process import run_process
from firnline_local.servers import artifacts, catalog, kafka
from firnline_local.servers.java import find_java
from firnline_local.topics.topics import DEFAULT_BUCKETS, make_topics

from tests.kit.spark_session import spark_builder

MAINS = (
    "kafka.Kafka",
    "kafka.tools.StorageTool",
    catalog.MAIN,
    "org.apache.spark.launcher.Main",
    "org.apache.spark.deploy.SparkSubmit",
    "py4j.GatewayServer",
)
C1_ALONE = "-XX:TieredStopAtLevel=1"
STOP_S = 90.0  # an archive is written at the end of its JVM: 10 s, once it never was
WRAPPER = Path(__file__).parents[2] / "infra/docker/java.sh"


def write_wrapper(folder: Path) -> None:
    """Write the `java` of the folder, which is the one that is found without it."""
    java, found = folder / "bin/java", folder / "jre/bin/java"
    for one in (java, found):
        one.parent.mkdir(parents=True)
    shutil.copy(WRAPPER, java)
    found.symlink_to(find_java())
    find_java.cache_clear()
    os.environ |= {
        "JAVA_HOME": str(folder),
        "JAVA_TOOL_OPTIONS": C1_ALONE,
        "ARCHIVE_CLASSES": " ".join(MAINS),
    }


def use_kafka(servers: str) -> None:
    """Load what topics, a transaction and a group need."""
    make_topics(servers, DEFAULT_BUCKETS)
    producer = Producer({"bootstrap.servers": servers, "transactional.id": "archives"})
    producer.init_transactions()
    producer.begin_transaction()
    producer.produce("table-commits", b"value", b"key")
    producer.commit_transaction()
    consumer = Consumer(
        {"bootstrap.servers": servers, "group.id": "archives", "auto.offset.reset": "earliest"}
    )
    consumer.subscribe(["table-commits"])
    consumer.consume(1, 30.0)
    consumer.commit(asynchronous=False)
    consumer.close()


def use_spark(uri: str, jar: Path, folder: Path) -> None:
    """Load what writes, deletes, maintenance and Python workers need."""
    spark = spark_builder(uri, jar, folder).getOrCreate()
    spark.sql("CREATE NAMESPACE lake.db")
    merge = "TBLPROPERTIES ('format-version'='2', 'write.delete.mode'='merge-on-read')"
    spark.sql(f"CREATE TABLE lake.db.t (id INT, p INT) USING iceberg PARTITIONED BY (p) {merge}")
    spark.sql("INSERT INTO lake.db.t SELECT id, id % 2 FROM range(100)")
    spark.sql("DELETE FROM lake.db.t WHERE id = 7")
    for codegen, mode in (("false", "NO_CODEGEN"), ("true", "FALLBACK")):
        spark.conf.set("spark.sql.codegen.wholeStage", codegen)
        spark.conf.set("spark.sql.codegen.factoryMode", mode)
        spark.sql("SELECT p, count(*) FROM lake.db.t GROUP BY p ORDER BY p").collect()
    context = spark.sparkContext
    context.parallelize(range(4), 2).map(str).collect()
    gateway: Any = context._gateway
    spark.stop()
    gateway.shutdown()
    gateway.proc.stdin.close()
    gateway.proc.wait(STOP_S)


def use_small_jvm(uri: str, jar: Path) -> None:
    """Load what a commit needs."""
    running = IcebergJvm(jar)
    java = running.jvm
    named = java.org.apache.iceberg.catalog.TableIdentifierParser.fromJson(
        '{"namespace":["db"],"name":"t"}'
    )
    table = rest_catalog(java, uri).loadTable(named)
    table.newAppend().commit()
    table.expireSnapshots().expireOlderThan(0).commit()
    logging.getLogger("py4j").setLevel(logging.CRITICAL)  # objects outlive their JVM
    process = running._process
    assert process.stdin is not None
    process.stdin.close()
    process.wait(STOP_S)


def make_archives(folder: Path) -> None:
    """Start each kind of JVM, use it a little, and end it in order. The folder is there whole or
    not at all: Java does not survive half of an archive."""
    made = folder.with_name(f"{folder.name}.{os.getpid()}")
    write_wrapper(made)
    port, own_port, jar = free_port(), free_port(), artifacts.iceberg_jar()
    with tempfile.TemporaryDirectory() as scratch, ExitStack() as stack:
        at = Path(scratch)
        broker = kafka.command(at / "kafka", port, free_port(frozenset({port, own_port})))
        for command in (broker, catalog.command(at / "catalog", own_port)):
            log = at / f"{command.name}.log"
            stack.enter_context(run_process(command, log, grace_s=STOP_S))
        use_kafka(kafka.bootstrap_servers(port))
        use_spark(catalog.uri(own_port), jar, at)
        use_small_jvm(catalog.uri(own_port), jar)
    shutil.rmtree(folder, ignore_errors=True)
    made.rename(folder)


if __name__ == "__main__":
    make_archives(Path(sys.argv[1]).absolute())
