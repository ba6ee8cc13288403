"""The servers behind the fixtures are real and agree with each other."""

from __future__ import annotations

import uuid

import pyarrow as pa
import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient, NewTopic
from pyiceberg.catalog.rest import RestCatalog
from pyiceberg.exceptions import NoSuchNamespaceError
from pyspark.sql import SparkSession
from redis import Redis

pytestmark = pytest.mark.stack


def test_a_record_comes_back_from_the_broker(kafka: str) -> None:
    topic = f"t-{uuid.uuid4().hex}"
    admin = AdminClient({"bootstrap.servers": kafka})
    admin.create_topics([NewTopic(topic, num_partitions=2, replication_factor=1)])[topic].result()
    producer = Producer({"bootstrap.servers": kafka})
    producer.produce(topic, value=b"x", key=b"k", partition=1)
    assert producer.flush(30) == 0
    consumer = Consumer(
        {"bootstrap.servers": kafka, "group.id": topic, "auto.offset.reset": "earliest"}
    )
    consumer.subscribe([topic])
    try:
        record = consumer.poll(30)
    finally:
        consumer.close()
    assert (record.partition(), record.key(), record.value()) == (1, b"k", b"x")


def test_redis_remembers(redis_url: str) -> None:
    with Redis.from_url(redis_url) as client:
        key = uuid.uuid4().hex
        client.set(key, b"v")
        assert client.get(key) == b"v"


@pytest.mark.spark
def test_spark_reads_what_pyiceberg_appended(
    lake: RestCatalog, namespace: str, spark: SparkSession
) -> None:
    rows = pa.table({"id": pa.array([1, 2], pa.int64())})
    table = lake.create_table(f"{namespace}.t", rows.schema)
    table.append(rows)
    found = spark.sql(f"SELECT id FROM lake.{namespace}.t ORDER BY id").collect()
    assert [row.id for row in found] == [1, 2]


@pytest.mark.spark
def test_pyiceberg_reads_what_spark_inserted(
    lake: RestCatalog, namespace: str, spark: SparkSession
) -> None:
    spark.sql(f"CREATE TABLE lake.{namespace}.s (id BIGINT) USING iceberg")
    spark.sql(f"INSERT INTO lake.{namespace}.s VALUES (7)")
    assert lake.load_table(f"{namespace}.s").scan().to_arrow().to_pylist() == [{"id": 7}]


def test_the_catalog_refuses_a_namespace_nobody_created(lake: RestCatalog) -> None:
    schema = pa.schema([("id", pa.int64())])
    with pytest.raises(NoSuchNamespaceError):
        lake.create_table(f"never_{uuid.uuid4().hex}.t", schema)
