"""Checks Kafka: the connection, its topics against their files, and the rights of its principal."""

from __future__ import annotations

import logging
import socket
import threading
from collections.abc import Collection, Iterator
from functools import cached_property, partial
from typing import Any

from firnline_cli.checks.findings import (
    Check,
    CheckAnswer,
    CheckStatus,
    Failed,
    NotTried,
    failed_answer,
    remark,
)
from firnline_cli.checks.settings import Given

REACH_S = 8.0
SILENT = logging.getLogger("firnline.doctor.kafka")  # what is wrong is said by the findings
SILENT.addHandler(logging.NullHandler())
SILENT.propagate = False
ASK_S = 15.0
TOPICS = "run `firnline topics` with the FIRNLINE_BUCKETS and FIRNLINE_GROUPS of the deployment"
REPLICAS = "move it with kafka-reassign-partitions.sh; FIRNLINE_REPLICAS says that fewer are wanted"
COORDINATOR = (
    "Kafka's own topics __consumer_offsets and __transaction_state need as many brokers as their "
    "replication factor (offsets.topic.replication.factor, transaction.state.log.*)"
)


def kafka_checks(given: Given, made: KafkaChecks) -> Iterator[Check]:
    """Yield the checks that concern the given services."""
    reach = ("kafka.reach",)
    yield Check("kafka.reach", f"reach {given.told.kafka or 'FIRNLINE_KAFKA'}", made.reach)
    yield Check("kafka.topics", "describe the topics", made.check_topics, reach)
    yield Check("kafka.settings", "compare their settings", made.check_settings, reach)
    for service in given.services:
        tried = f"ask what our principal may do as {service}"
        yield Check(f"kafka.rights.{service}", tried, partial(made.check_rights, service), reach)
    if given.concerns(("planner",)):
        yield Check("kafka.transaction", "begin and end a transaction", made.try_transaction, reach)


class KafkaChecks:
    """The checks of one Kafka."""

    def __init__(self, given: Given) -> None:
        self._given = given
        self._described: dict[str, Any] | None = None
        self._describing = threading.Lock()

    def config(self, **own: Any) -> dict[str, Any]:
        """Return the configuration of a client. Raises Failed, NotTried."""
        from firnline_adapters.kafka.connection import QUIET, client_config
        from firnline_domain.errors import Misconfigured

        if not self._given.told.kafka:
            raise Failed("it is not set", "FIRNLINE_KAFKA names the brokers, host:port[,...]")
        try:
            return client_config(self._given.connection(), {**QUIET, **own})
        except Misconfigured as error:
            raise Failed(error, "see docs/deploy/secure-kafka-and-redis.md") from None

    @cached_property
    def _admin(self) -> Any:
        """Return the admin client of all checks: its futures do not outlive it."""
        from confluent_kafka.admin import AdminClient

        return AdminClient(self.config())

    def reach(self) -> str:
        """Check that a broker answers and accepts us."""
        from firnline_adapters.kafka.startup import UNREACHED, KafkaProbe, Unreached
        from firnline_domain.errors import Misconfigured

        self.config()
        try:
            KafkaProbe(self._given.connection()).wait_for_broker(REACH_S)
        except Misconfigured as error:
            raise Failed(error, _kafka_remedy(str(error))) from None
        except Unreached as error:
            raise Failed(error, UNREACHED) from None
        brokers = self._admin.list_topics(timeout=ASK_S).brokers
        return "1 broker answers" if len(brokers) == 1 else f"{len(brokers)} brokers answer"

    def required_topics(self) -> dict[str, Any]:
        """Return the topics of the given services, by name. Raises Failed."""
        from firnline_domain.errors import Misconfigured
        from firnline_domain.settings.groups import parse_groups
        from firnline_local.topics.topics import topics_with

        try:
            topics = topics_with(parse_groups(self._given.told.groups))
        except Misconfigured as error:
            raise Failed(error, "set it as for every service of the deployment") from None
        return {
            one.name: one for one in topics if self._given.concerns((*one.read_by, *one.written_by))
        }

    def topic_descriptions(self) -> dict[str, Any]:
        """Return topic -> its description, or the KafkaError that came instead. The broker is asked
        once."""
        with self._describing:
            if self._described is None:
                self._described = self._describe_topics()
            return self._described

    def _describe_topics(self) -> dict[str, Any]:
        from confluent_kafka import KafkaException, TopicCollection

        asked = self._admin.describe_topics(
            TopicCollection(sorted(self.required_topics())),
            include_authorized_operations=True,
            request_timeout=ASK_S,
        )
        found: dict[str, Any] = {}
        for name, future in asked.items():
            try:
                found[name] = future.result()
            except KafkaException as error:
                found[name] = error.args[0]
        return found

    def visible_topics(self) -> dict[str, Any]:
        """Return topic -> description, of the topics that exist and that we may describe."""
        return {
            name: one
            for name, one in self.topic_descriptions().items()
            if hasattr(one, "partitions")
        }

    def check_topics(self) -> list[CheckAnswer]:
        """Check that each topic exists, with its partitions, copies and a leader."""
        from confluent_kafka import KafkaError

        gone = KafkaError.UNKNOWN_TOPIC_OR_PART
        missing = [
            name
            for name, one in self.topic_descriptions().items()
            if isinstance(one, KafkaError) and one.code() == gone
        ]
        answers = (
            [failed_answer(f"Kafka has no topic {_join_names(missing)}", TOPICS)] if missing else []
        )
        answers += [*self._check_partitions(), *self._check_replication()]
        return answers or [
            CheckAnswer(CheckStatus.FINE, f"{len(self.visible_topics())} topics are there")
        ]

    def _check_partitions(self) -> Iterator[CheckAnswer]:
        homes, wanted = self._given.told.buckets, self.required_topics()
        seen = {name: len(one.partitions) for name, one in self.visible_topics().items()}
        buckets = max([homes, *(seen[name] for name in seen if wanted[name].is_by_bucket)])
        wrong: dict[tuple[int, int], list[str]] = {}
        for name, count in seen.items():
            asked = wanted[name].partitions(homes, buckets)
            if count != asked:
                wrong.setdefault((count, asked), []).append(name)
        for (count, asked), names in sorted(wrong.items()):
            yield failed_answer(
                f"{count} partitions, not {asked} (FIRNLINE_BUCKETS={homes}), has topic "
                + _join_names(names),
                "set the FIRNLINE_BUCKETS that the deployment began with; if that is what is set, "
                "stop all services, delete these topics and run `firnline topics`",
            )

    def _check_replication(self) -> Iterator[CheckAnswer]:
        from firnline_adapters.kafka_admin.replication import choose_replication
        from firnline_domain.errors import Misconfigured

        told = self._given.told
        brokers = len(self._admin.list_topics(timeout=ASK_S).brokers)
        try:
            copies = choose_replication(brokers, told.replicas, told.min_in_sync)
        except Misconfigured as error:
            yield failed_answer(error, "the cluster is smaller than these settings want it")
            return
        few: dict[int, list[str]] = {}
        for name, one in sorted(self.visible_topics().items()):
            replicas = min(len(partition.replicas) for partition in one.partitions)
            if replicas < copies.replicas:
                few.setdefault(replicas, []).append(name)
            if any(partition.leader is None for partition in one.partitions):
                yield failed_answer(
                    f"topic {name} has a partition without a leader", "start its brokers"
                )
        for replicas, names in few.items():
            found = f"replication factor {replicas}, not {copies.replicas}, of topic "
            yield failed_answer(found + _join_names(names), REPLICAS)
        if copies.remark and not few:
            yield remark(copies.remark, "for tests that is enough")

    def check_settings(self) -> list[CheckAnswer] | str:
        """Compare the topics' settings with their files and FIRNLINE_TOPIC_CONFIG."""
        from confluent_kafka import KafkaError, KafkaException
        from firnline_adapters.kafka_admin.replication import replication_here
        from firnline_domain.errors import Misconfigured
        from firnline_local.topics.topic_options import (
            find_differences,
            options_here,
            with_options,
        )

        seen = self.visible_topics()
        if not seen:
            raise NotTried("no topic is there")
        told, admin = self._given.told, self._admin
        wanted = [one for name, one in self.required_topics().items() if name in seen]
        wanted = with_options(wanted, options_here(self._given.environment))
        try:
            copies = replication_here(admin, told.replicas, told.min_in_sync)
            found = find_differences(admin, wanted, told.buckets, copies)
        except Misconfigured:
            raise NotTried("kafka.topics says why") from None
        except KafkaException as error:
            if error.args[0].code() != KafkaError.TOPIC_AUTHORIZATION_FAILED:
                raise
            raise NotTried(
                "this principal has no DescribeConfigs permission (only `firnline topics` needs it)"
            ) from None
        wrong = [one for one in found if one.can_be_applied]
        if not wrong:
            return f"{len(wanted)} topics have theirs"
        return [
            failed_answer(
                f"{one.topic}: {one.setting} is {one.found}, not {one.asked}",
                "run `firnline topics --apply`; FIRNLINE_TOPIC_CONFIG sets other values",
            )
            for one in wrong
        ]

    def check_rights(self, service: str) -> list[CheckAnswer] | str:
        """Check Read and Write on the topics of a service, and Read on its consumer groups."""
        lacking: dict[str, list[str]] = {}
        for right, name in (*self._lacking_topics(service), *self._lacking_groups(service)):
            lacking.setdefault(right, []).append(name)
        return [
            failed_answer(f"Kafka denies us {right} {_join_names(names)}", acl_remedy(service))
            for right, names in sorted(lacking.items())
        ] or "Kafka allows it"

    def _lacking_topics(self, service: str) -> Iterator[tuple[str, str]]:
        from confluent_kafka import KafkaError
        from firnline_adapters.kafka.startup import topic_operations

        for name, wanted in topic_operations(service).items():
            one = self.topic_descriptions().get(name)
            if isinstance(one, KafkaError):
                hidden = one.code() == KafkaError.TOPIC_AUTHORIZATION_FAILED
                denied = wanted if hidden else set()
            else:
                allowed = getattr(one, "authorized_operations", None)
                denied = set() if allowed is None else wanted - set(allowed)
            for right in denied:
                yield f"{right.name.capitalize()} on topic", name

    def _lacking_groups(self, service: str) -> Iterator[tuple[str, str]]:
        """Yield each missing right with its group. A consumer that asks for its committed offsets
        needs only Describe, so the rights themselves are read; also those of a group that does not
        exist."""
        from confluent_kafka import KafkaError, KafkaException
        from confluent_kafka.admin import AclOperation
        from firnline_adapters.kafka_admin.acls import PREFIXED, all_acls

        names = {
            f"{one.name}doctor" if one.pattern == PREFIXED else one.name
            for one in all_acls(list(self.required_topics().values()), self._given.told.planner_app)
            if one.kind == "group" and one.service == service
        }
        for name in sorted(names):
            try:
                allowed = self._rights_on(name)
            except KafkaException as error:
                code = error.args[0].code()
                if code == KafkaError.GROUP_AUTHORIZATION_FAILED:
                    yield "Read on group", name
                elif code != KafkaError.GROUP_ID_NOT_FOUND:
                    raise Failed(f"group {name}: {error.args[0].str()}", COORDINATOR) from None
                continue
            if allowed is not None and AclOperation.READ not in allowed:
                yield "Read on group", name

    def _rights_on(self, group: str) -> Any:
        """Return our rights on a group. Waits for a coordinator that has just moved to a broker.
        Raises KafkaException."""
        from firnline_adapters.kafka.questions import ask_broker

        def authorized_operations() -> Any:
            found = self._admin.describe_consumer_groups(
                [group], include_authorized_operations=True, request_timeout=ASK_S / 2
            )
            return found[group].result().authorized_operations

        return ask_broker(authorized_operations, ASK_S / 2)

    def try_transaction(self) -> str:
        """Begin and end an empty transaction, with a transactional id of the planner's."""
        from confluent_kafka import KafkaError, KafkaException, Producer

        name = f"{self._given.told.planner_app}-doctor-{socket.gethostname()}"
        producer = Producer(self.config(**{"transactional.id": name}), logger=SILENT)
        try:
            producer.init_transactions(ASK_S)
            producer.begin_transaction()
            producer.commit_transaction(ASK_S)
        except KafkaException as error:
            denied = error.args[0].code() == KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
            text = f"{name}: {error.args[0].str()}"
            raise Failed(text, acl_remedy("planner") if denied else COORDINATOR) from None
        return f"transactional id {name}"


def acl_remedy(service: str) -> str:
    """Return the remedy for a missing right."""
    return (
        f"give its principal what `firnline kafka-acls --service {service}` prints; where each "
        f"service has a principal of its own, ask for one with --service {service}"
    )


def _join_names(names: Collection[str]) -> str:
    return ", ".join(sorted(names))


def _kafka_remedy(text: str) -> str:
    if "certificate" in text and "verif" in text:
        return (
            "ssl.ca.location in FIRNLINE_KAFKA_CONFIG names a PEM file with the CA that has signed "
            "the brokers' certificate"
        )
    if "SSL" in text:
        return (
            "security.protocol in FIRNLINE_KAFKA_CONFIG is that of the listener which "
            "FIRNLINE_KAFKA names: SSL and SASL_SSL where it speaks TLS"
        )
    return (
        "sasl.mechanism, sasl.username and sasl.password in FIRNLINE_KAFKA_CONFIG are not what the "
        "broker knows; see docs/deploy/secure-kafka-and-redis.md"
    )
