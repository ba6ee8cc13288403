"""A planner under the transactional driver, from its start to a signal."""

from __future__ import annotations

import signal
import uuid
from functools import partial
from pathlib import Path

from firnline_adapters import clock
from firnline_adapters.kafka.assignments import KafkaAssignments
from firnline_adapters.kafka.consumer_lag import ConsumerLag
from firnline_adapters.kafka.poison_records import KafkaMarks, StartMarks
from firnline_adapters.kafka_admin.replication import replication_here
from firnline_adapters.observability.logs import Log
from firnline_adapters.policy_file import PolicyFile
from firnline_domain.records.assignments import Board
from firnline_domain.settings.thresholds import Thresholds

from firnline_planner import watchdog
from firnline_planner.bucket.inputs import InputReader
from firnline_planner.drivers.kafka import changelog
from firnline_planner.drivers.kafka.clients import KafkaClients
from firnline_planner.drivers.kafka.driver import KafkaDriver
from firnline_planner.drivers.kafka.local_store import shared_cache
from firnline_planner.drivers.kafka.owned_buckets import OwnedBuckets
from firnline_planner.drivers.kafka.transactions import KafkaTransactions
from firnline_planner.placement.routing import BucketFleet
from firnline_planner.settings import PlannerSettings


def serve(
    settings: PlannerSettings,
    reader: InputReader,
    defaults: Thresholds,
    policies: PolicyFile,
    log: Log,
) -> None:
    """Serve until SIGTERM or SIGINT. Raises Misconfigured, KafkaException, RetryLater."""
    clients = KafkaClients(settings.broker, settings.app)
    directory = Path(settings.state_dir) / "kafka"
    directory.mkdir(parents=True, exist_ok=True)
    copies = replication_here(clients.create_admin(), settings.replicas, settings.min_in_sync)
    log_of_state = changelog.open_changelog(
        clients, topic_of(settings.app), settings.buckets, copies
    )
    consumer = clients.create_consumer()
    producer = clients.create_producer(_transactional_id(directory, settings.app))
    stop = partial(watchdog.exit_process, log)
    # Read before this planner joins: whatever it is given, it knows where its tables are.
    assignments = KafkaAssignments(settings.broker, Board(settings.buckets), reader.signer)
    driver = KafkaDriver(
        consumer,
        KafkaTransactions(producer, consumer, log_of_state.topic),
        OwnedBuckets(
            directory,
            log_of_state,
            defaults,
            policies.read_current,
            log,
            clock.now_ms,
            shared_cache(),
            BucketFleet(assignments.board, reader.codec),
        ),
        reader,
        settings.tick_s,
        log,
        stop,
        assignments,
        ConsumerLag(consumer, settings.app),
        StartMarks(KafkaMarks(settings.broker, settings.app)),
    )

    for sign in (signal.SIGTERM, signal.SIGINT):
        signal.signal(sign, lambda *_: driver.end())
    signs = {"rounds or recovery": lambda: (driver.rounds, log_of_state.read)}
    guard = watchdog.Watchdog(signs, settings.stall_s, stop)
    guard.start()
    try:
        driver.run()
    finally:
        guard.end()


def topic_of(app: str) -> str:
    """Return the name of an application's changelog: `firnline-planner-state`."""
    return f"firnline-{app}-state"


def _transactional_id(directory: Path, app: str) -> str:
    """Return an id that is the same for every life of this state directory: the next life aborts at
    once the transaction of a killed one, and readers of its topics need not wait for its
    timeout."""
    path = directory / "transactional-id"
    if not path.exists():
        path.write_text(f"{app}-{uuid.uuid4().hex}")
    return path.read_text()
