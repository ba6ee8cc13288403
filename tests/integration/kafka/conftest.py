"""One secured broker with our topics and our services' rights."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from firnline_local.topics.topics import DEFAULT_BUCKETS, make_topics

from tests.kit.secured_kafka import ADMIN, SecuredKafka, secured_kafka


@pytest.fixture(scope="session")
def secured(servers: Path) -> Iterator[SecuredKafka]:
    with secured_kafka(servers / "secured-kafka") as broker:
        broker.allow_all_services()
        make_topics(broker.plain(ADMIN), DEFAULT_BUCKETS)
        yield broker
