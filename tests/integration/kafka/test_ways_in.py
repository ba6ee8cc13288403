"""Every way in that a broker knows, by the very clients that services use."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator

import pytest
from aiokafka import AIOKafkaProducer
from firnline_adapters.kafka.client import KafkaInbox, KafkaPublisher
from firnline_adapters.kafka.connection import KafkaConnection
from firnline_adapters.kafka.startup import KafkaProbe, Unreached
from firnline_adapters.kafka.topic_reader import FullTopicReader
from firnline_adapters.observability.logs import Log
from firnline_domain.errors import Misconfigured
from firnline_domain.records.orders import ResyncTable
from firnline_local.topics.topics import DEFAULT_BUCKETS
from firnline_planner.drivers.faust.security import aiokafka_options

from tests.kit.names import TABLE
from tests.kit.secured_kafka import PASSWORDS, SecuredKafka, token_end_point

pytestmark = [pytest.mark.stack, pytest.mark.timeout(120)]
WRITER, READER = "firnline-planner", "firnline-enricher"
TOPIC = "resync-requests"
Way = Callable[[str], KafkaConnection]
WAYS = ("plain", "plain_tls", "scram", "certificate", "unsecured_token", "token")


@pytest.fixture
def end_point() -> Iterator[str]:
    with token_end_point() as address:
        yield address


@pytest.fixture(params=WAYS)
def way(request: pytest.FixtureRequest, secured: SecuredKafka, end_point: str) -> Way:
    if request.param == "token":
        return lambda user: secured.token(user, end_point)
    found: Way = getattr(secured, request.param)
    return found


def test_what_one_service_writes_another_reads(way: Way) -> None:
    request = ResyncTable(TABLE, "main", None, None, "test", time.time_ns() // 1_000_000)
    publisher = KafkaPublisher(way(WRITER), DEFAULT_BUCKETS, "test")
    publisher.publish(TOPIC, TABLE.uuid, request)
    publisher.flush()
    reader = KafkaPublisher(way(READER), DEFAULT_BUCKETS, "test")
    inbox = KafkaInbox(way(READER), "enricher", [TOPIC], reader, Log("test"))
    found: list[object] = []
    while request not in found:  # others have written to the topic as well
        for delivery in inbox.poll(0.5):
            found.append(delivery.record)
            inbox.mark_done(delivery)
    inbox.close()
    FullTopicReader(way(READER), "bucket-assignments", lambda *_: None).close()


@pytest.mark.parametrize("name", ["plain", "plain_tls", "scram", "certificate"])
def test_aiokafka_comes_in_by_the_same_properties(name: str, secured: SecuredKafka) -> None:
    async def send() -> None:
        producer = AIOKafkaProducer(**aiokafka_options(getattr(secured, name)(WRITER)))
        await producer.start()
        try:
            await producer.send_and_wait("advice", b"x", b"k", partition=0)
        finally:
            await producer.stop()

    asyncio.run(send())


def test_a_wrong_password_is_said_with_where_to_look(secured: SecuredKafka) -> None:
    wrong = secured.plain(WRITER, "wrong-cAnAry")
    with pytest.raises(Misconfigured, match=r"refuses us: .*see sasl\.\* in") as why:
        KafkaProbe(wrong).wait_for_broker()
    assert "cAnAry" not in str(why.value)


def test_an_authority_that_we_do_not_know_is_said(secured: SecuredKafka) -> None:
    known = secured.scram(WRITER)
    properties = {name: one for name, one in known.properties.items() if "ssl.ca" not in name}
    with pytest.raises(Misconfigured, match=r"certificate verify failed.*ssl\.\* in"):
        KafkaProbe(KafkaConnection(known.servers, properties)).wait_for_broker()


def test_tls_to_a_listener_without_it_is_said(secured: SecuredKafka) -> None:
    plain, tls = secured.plain(WRITER), secured.plain_tls(WRITER)
    with pytest.raises(Unreached, match=r"connecting to a PLAINTEXT broker listener\?"):
        KafkaProbe(KafkaConnection(plain.servers, tls.properties)).wait_for_broker()


def test_a_listener_with_tls_does_not_answer_without(secured: SecuredKafka) -> None:
    plain, tls = secured.plain(WRITER), secured.plain_tls(WRITER)
    with pytest.raises(Unreached, match=tls.servers):
        KafkaProbe(KafkaConnection(tls.servers, plain.properties)).wait_for_broker()


def test_a_token_that_nobody_gives_is_said(secured: SecuredKafka, end_point: str) -> None:
    known = secured.token(WRITER, end_point)
    properties = {**known.properties, "sasl.oauthbearer.client.secret": "wrong"}
    with pytest.raises((Misconfigured, Unreached), match=r"(?i)token|oauth"):
        KafkaProbe(KafkaConnection(known.servers, properties)).wait_for_broker()


def test_no_password_is_shown(secured: SecuredKafka) -> None:
    for shown in (str, repr, "{}".format):
        assert PASSWORDS[WRITER] not in shown(secured.scram(WRITER))
