"""Names of headers are bytes on the wire. Those that are no UTF-8 end no reader."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import confluent_kafka
import pytest
from confluent_kafka import Consumer, Message, TopicPartition
from firnline_adapters.kafka.poison_records import read_headers
from firnline_adapters.observability.traces import trace_in

_FOLDER = Path(confluent_kafka.__file__).parent.parent / "confluent_kafka.libs"
LIBRDKAFKA = next(_FOLDER.glob("librdkafka*.so*"), None)
pytestmark = pytest.mark.skipif(LIBRDKAFKA is None, reason="librdkafka of another wheel")
TOPIC, PARTITION, VALUE, HEADER, END = 1, 3, 4, 9, 0  # arguments of rd_kafka_producev


def produce_with_headers(*names: bytes) -> str:
    """Produce a record for each name of a header to librdkafka's own broker for tests, and return
    the broker's address. Python's client would refuse the names."""
    c = ctypes.CDLL(str(LIBRDKAFKA))
    pointer, number, size = ctypes.c_void_p, ctypes.c_int, ctypes.c_size_t
    for function in ("rd_kafka_conf_new", "rd_kafka_new", "rd_kafka_mock_cluster_new"):
        getattr(c, function).restype = pointer
    c.rd_kafka_mock_cluster_bootstraps.restype = ctypes.c_char_p
    error = ctypes.create_string_buffer(512)
    client = pointer(c.rd_kafka_new(0, pointer(c.rd_kafka_conf_new()), error, size(512)))
    cluster = pointer(c.rd_kafka_mock_cluster_new(client, 1))
    address: bytes = c.rd_kafka_mock_cluster_bootstraps(cluster)
    c.rd_kafka_brokers_add(client, address)
    c.rd_kafka_mock_topic_create(cluster, b"t", 1, 1)
    for name in names:
        to_place = (number(TOPIC), b"t", number(PARTITION), number(0))
        header = (number(HEADER), name, b"x", ctypes.c_ssize_t(1))
        value = (number(VALUE), b"v", size(1))
        assert c.rd_kafka_producev(client, *to_place, *value, *header, number(END)) == 0
    assert c.rd_kafka_flush(client, 10_000) == 0
    return address.decode()


@pytest.fixture(scope="module")
def messages() -> Iterator[list[Message]]:
    address = produce_with_headers(b"traceparent", b"\xff", b"ok\xc0\xaf")
    own = {"bootstrap.servers": address, "group.id": "g", "log_level": 0}
    with closing(Consumer(own)) as consumer:
        consumer.assign([TopicPartition("t", 0, 0)])
        found = list[Message]()
        while len(found) < 3:
            found += consumer.consume(3 - len(found), 10.0)
        yield found


def test_names_that_are_no_text_leave_a_message_without_headers(messages: list[Message]) -> None:
    named, *odd = messages
    for _ in range(100):  # as in a service: from then on Python calls in its quickest way
        assert list(read_headers(named)) == [("traceparent", b"x")]
    for message in odd:
        for _ in range(2):  # what the client returns the second time ends the process
            assert list(read_headers(message)) == []
        assert trace_in(message.headers()) == ""
