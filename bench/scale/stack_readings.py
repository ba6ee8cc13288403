"""Read what a stack says while a benchmark runs: records of its topics, and services' metrics."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import requests
from firnline_adapters.kafka.client import KafkaInbox, KafkaPublisher
from firnline_adapters.observability.logs import Log
from firnline_local.processes.ports import LOOPBACK
from firnline_local.stack.stack import Stack
from firnline_local.topics.topics import initial_buckets
from prometheus_client import Metric
from prometheus_client.parser import text_string_to_metric_families


@contextmanager
def reading_records(
    stack: Stack, topics: Sequence[str], take: Callable[[Any], None]
) -> Iterator[None]:
    """Read the topics in a thread, and give each record to `take` as it comes."""
    publisher = KafkaPublisher(stack.kafka, initial_buckets(), "bench", signer=stack.signer)
    inbox = KafkaInbox(stack.kafka, f"bench-{uuid.uuid4()}", topics, publisher, Log("bench"))
    stop = threading.Event()

    def read() -> None:
        while not stop.is_set():
            for delivery in inbox.poll(0.02):
                take(delivery.record)
                inbox.mark_done(delivery)

    thread = threading.Thread(target=read)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()
        inbox.close()


def read_metrics(port: int) -> list[Metric]:
    """Read the metrics of a service."""
    page = requests.get(f"http://{LOOPBACK}:{port}/metrics", timeout=30).text
    return list(text_string_to_metric_families(page))


def sum_samples(pages: Sequence[Metric], name: str) -> float:
    """Sum the samples of one name over all labels."""
    return sum(sample.value for family in pages for sample in family.samples if sample.name == name)
