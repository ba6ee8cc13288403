"""Does Kafka answer, and may this service do there what its topics' files say? Asked at the start.

A broker that refuses us, a topic that is missing and an ACL that is lacking are somebody's to mend:
the service says so and ends. A broker that does not answer may come back: it waits, and says so.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from confluent_kafka import KafkaError, KafkaException, TopicCollection
from confluent_kafka.admin import AclOperation, AdminClient
from firnline_domain.errors import Misconfigured
from firnline_schemas.topics import all_topics

from firnline_adapters.kafka.connection import KAFKA, KAFKA_CONFIG, QUIET, Kafka, client_config
from firnline_adapters.kafka.connection import connection_of as _of
from firnline_adapters.observability.logs import Log

TRY_S = 3.0  # for one answer
AGAIN_S = 10.0  # between two lines that say that we wait
SPREAD_S = 3.0  # until every broker has heard of a topic that was just made
# The broker, or its certificate, has answered: no.
REFUSED: Mapping[int, str] = {
    KafkaError._AUTHENTICATION: "see sasl.* in",
    KafkaError.SASL_AUTHENTICATION_FAILED: "see sasl.* in",
    KafkaError.UNSUPPORTED_SASL_MECHANISM: "see sasl.mechanism in",
    KafkaError._SSL: "see security.protocol and ssl.* in",
}
UNANSWERED = {KafkaError._TIMED_OUT, KafkaError._TRANSPORT, KafkaError._ALL_BROKERS_DOWN}
UNREACHED = (
    f"{KAFKA.variable} names the brokers; security.protocol in {KAFKA_CONFIG.variable} is that of "
    "their listener"
)
ACLS = "give its principal what `firnline kafka-acls` prints"


class Unreached(Exception):
    """No broker answers; the message says why."""


class KafkaProbe:
    """Asks one Kafka whether it answers."""

    def __init__(self, kafka: Kafka) -> None:
        """Create the client, without a connection. Raises Misconfigured."""
        self._servers = _of(kafka).servers
        self._errors: list[KafkaError] = []
        try:
            self._admin = AdminClient(
                {**client_config(kafka, QUIET), "error_cb": self._errors.append}
            )
        except KafkaException as error:
            raise Misconfigured(f"{KAFKA_CONFIG.variable}: {error.args[0].str()}") from None

    def wait_for_broker(self, timeout_s: float = TRY_S) -> None:
        """Return when a broker has answered. Raises Misconfigured if it refuses us, Unreached
        where none answers."""
        self._errors.clear()
        deadline = time.monotonic() + timeout_s
        while True:
            try:
                self._admin.list_topics(timeout=min(1.0, timeout_s))
                return
            except KafkaException as error:
                last = error.args[0]
            self._admin.poll(0)
            self._raise_if_refused()
            if time.monotonic() >= deadline:
                raise Unreached(self._error_text(last))

    def _raise_if_refused(self) -> None:
        for error in self._errors:
            if where := REFUSED.get(error.code()):
                raise Misconfigured(
                    f"Kafka at {self._servers} refuses us: {error.str()}: {where} "
                    f"{KAFKA_CONFIG.variable}"
                )

    def _error_text(self, last: KafkaError) -> str:
        down = KafkaError._ALL_BROKERS_DOWN
        found = next((one for one in self._errors if one.code() != down), last)
        return f"{self._servers}: {found.str()}"

    def list_problems(self, wanted: Mapping[str, set[AclOperation]]) -> list[str]:
        """Return a line for each topic that is missing, or that this process may not use. Raises
        KafkaException, Unreached."""
        asked = self._admin.describe_topics(
            TopicCollection(sorted(wanted)),
            include_authorized_operations=True,
            request_timeout=TRY_S * 3,
        )
        try:
            return [
                line
                for name in sorted(asked)
                for line in _topic_problems(name, asked[name], wanted[name])
            ]
        except KafkaException as error:
            if error.args[0].code() in UNANSWERED:  # a broker that is only starting, or is busy
                raise Unreached(self._error_text(error.args[0])) from None
            raise


def _topic_problems(name: str, asked: Any, wanted: set[AclOperation]) -> Iterator[str]:
    try:
        allowed = asked.result().authorized_operations
    except KafkaException as error:
        code = error.args[0].code()
        if code == KafkaError.UNKNOWN_TOPIC_OR_PART:
            yield f"Kafka has no topic {name}: run `firnline topics` with the same variables"
        elif code == KafkaError.TOPIC_AUTHORIZATION_FAILED:
            yield f"Kafka does not let us see topic {name} (Describe): {ACLS}"
        else:
            raise
        return
    if allowed is not None and (lacking := wanted - set(allowed)):
        names = ", ".join(sorted(one.name.capitalize() for one in lacking))
        yield f"Kafka denies us {names} on topic {name}: {ACLS}"


def topic_operations(service: str) -> dict[str, set[AclOperation]]:
    """Return topic name -> operations that a service needs there, by the topics' files."""
    found: dict[str, set[AclOperation]] = {}
    for one in all_topics():
        if service in one.read_by:
            found.setdefault(one.name, set()).add(AclOperation.READ)
        if service in one.written_by:
            found.setdefault(one.name, set()).add(AclOperation.WRITE)
    return found


def require_kafka(
    service: str,
    kafka: Kafka,
    log: Log,
    wait: bool = True,
    sleep: Callable[[float], None] = time.sleep,
) -> KafkaProbe:
    """Return when Kafka has answered and all is there; `wait` False: also without an answer.

    Raises Misconfigured: a line for each missing topic and each missing ACL."""
    probe = KafkaProbe(kafka)
    deadline = math.inf
    while True:
        try:
            probe.wait_for_broker()
            deadline = min(deadline, time.monotonic() + SPREAD_S)
            wrong = probe.list_problems(topic_operations(service))
            if not wrong:
                return probe
            if time.monotonic() > deadline:
                raise Misconfigured("\n".join(wrong))
            sleep(0.5)
        except Unreached as why:
            then = "waiting" if wait else "serving without it"
            log.warning("kafka_unreached", why=why, then=then, see=UNREACHED)
            if not wait:
                return probe
            sleep(AGAIN_S - TRY_S)
