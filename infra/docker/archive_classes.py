"""Writes archives of the classes that the JVMs of worker and committer load (java.sh)."""

import os
import tempfile

MAINS = (
    "org.apache.spark.launcher.Main",
    "org.apache.spark.deploy.SparkSubmit",
    "py4j.GatewayServer",
)
os.environ |= {"ARCHIVE_CLASSES": " ".join(MAINS), "SPARK_LOCAL_IP": "127.0.0.1"}

from firnline_iceberg.java.jvm import IcebergJvm  # noqa: E402
from pyspark.sql import SparkSession  # noqa: E402

JARS = os.environ["FIRNLINE_ICEBERG_JAR"]
STOP_S = 120.0  # an archive is written at the end of its JVM
LAKE = "spark.sql.catalog.lake"
SETTINGS = {
    "spark.driver.extraClassPath": JARS,
    "spark.driver.extraJavaOptions": "-XX:+UseSerialGC",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.ui.enabled": "false",
    "spark.sql.extensions": "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
    LAKE: "org.apache.iceberg.spark.SparkCatalog",
    f"{LAKE}.type": "hadoop",
}


def use_spark(folder: str) -> None:
    """Load what a session, its catalog and tasks in Python need."""
    builder = SparkSession.builder.master("local[2]").config(f"{LAKE}.warehouse", folder)
    spark = builder.config(map=SETTINGS).getOrCreate()
    spark._jsparkSession.sessionState().catalogManager().catalog("lake")
    spark.sparkContext.parallelize(range(4), 2).map(str).collect()
    gateway = spark.sparkContext._gateway
    spark.stop()
    gateway.shutdown()
    gateway.proc.stdin.close()
    gateway.proc.wait(STOP_S)


def use_small_jvm(folder: str) -> None:
    """Load what a table and a commit need."""
    running = IcebergJvm(JARS)
    java = running.jvm
    settings = java.org.apache.hadoop.conf.Configuration()
    tables = java.org.apache.iceberg.hadoop.HadoopTables(settings)
    table = tables.create(java.org.apache.iceberg.Schema([]), f"{folder}/t")
    table.newAppend().commit()
    table.expireSnapshots().expireOlderThan(0).commit()
    process = running._process
    process.stdin.close()
    process.wait(STOP_S)


with tempfile.TemporaryDirectory() as scratch:
    use_spark(scratch)
    use_small_jvm(scratch)
