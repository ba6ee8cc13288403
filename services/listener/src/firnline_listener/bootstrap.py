"""The one place that builds clients."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from firnline_adapters.clock import now_ms
from firnline_adapters.config.tls import server_context
from firnline_adapters.consumer.threads import Threads
from firnline_adapters.kafka.assignments import FollowedAssignments
from firnline_adapters.kafka.client import KafkaInbox, KafkaPublisher
from firnline_adapters.kafka.poison_records import KafkaMarks, StartMarks
from firnline_adapters.kafka.topic_reader import FullTopicReader
from firnline_adapters.observability.health import HEALTH, say_ready
from firnline_adapters.observability.logs import Log
from firnline_adapters.records.signing import signer_of
from firnline_domain.ports import Inbox
from firnline_iceberg.connection.call_metrics import declare_catalogs
from firnline_iceberg.connection.connection import CatalogConnection
from firnline_iceberg.connection.prefix import at_prefix
from firnline_iceberg.table.catalog_client import Tables

from firnline_listener.core.call_budget import CallBudget
from firnline_listener.core.known_tables import STATES, KnownTables
from firnline_listener.core.queue import LookQueue
from firnline_listener.core.reader import CatalogReader
from firnline_listener.core.source_loop import SourceLoop
from firnline_listener.handlers import CatalogWork, Listener
from firnline_listener.port import DoorbellSource, Surroundings
from firnline_listener.settings import ListenerSettings, read_sources
from firnline_listener.sources.own_commits import EVENTS, GROUP, OwnCommits, shared_by
from firnline_listener.sources.registry import open_source
from firnline_listener.sources.sweep import Sweep, SweepTimes

READERS = 4  # threads for each catalog
STOP_S = 5.0  # for a source to settle
STEP_S = 0.2


def run(settings: ListenerSettings, log: Log, stop: threading.Event) -> None:
    """Listen until `stop`. Raises Misconfigured, and RetryLater if the broker does not take
    records."""
    known = KnownTables()
    signer = signer_of(settings)
    states = FullTopicReader(settings.broker, STATES, known.fold_state, signer)
    places = FollowedAssignments(settings.broker, settings.buckets, log, signer)
    publisher = KafkaPublisher(settings.broker, settings.buckets, "listener", places, signer)
    declare_catalogs(settings.connections)
    works = {}
    for one in settings.connections.values():
        budget = CallBudget(settings.calls_per_minute)
        for prefix in ("", *one.other_prefixes):
            path = "/".join(filter(None, (one.name, prefix)))
            works[path] = open_catalog(at_prefix(one, prefix), budget, known)
    listener = Listener(works, known, publisher, log, time.monotonic, now_ms)
    starts = StartMarks(KafkaMarks(settings.broker, GROUP))
    inbox = KafkaInbox(settings.broker, GROUP, [EVENTS], publisher, log, starts=starts)
    sources = open_sources(settings, known, inbox, log)
    with running_sources(sources, listener, log):
        log.info("known", tables=len(known.by_key))
        say_ready(log, catalogs=list(settings.connections))
        while not stop.is_set():
            states.catch_up()
            listener.step(STEP_S)
    states.close()
    log.info("stopped")


def open_catalog(
    connection: CatalogConnection, budget: CallBudget, known: KnownTables
) -> CatalogWork:
    """Return what belongs to one catalog at one prefix."""
    tables = Tables(connection)
    tables.pace = budget.take_call
    reader = CatalogReader(connection.name, tables, known)
    return CatalogWork(reader, budget, Threads(READERS), LookQueue())


def open_sources(
    settings: ListenerSettings, known: KnownTables, inbox: Inbox, log: Log
) -> dict[str, DoorbellSource]:
    """Open the own commits, a sweep for each catalog, and the configured sources. Raises
    Misconfigured."""
    times = SweepTimes(settings.calls_per_minute)
    is_ours = shared_by(inbox, settings.buckets)
    found: dict[str, DoorbellSource] = {"own-commits": OwnCommits(inbox)}
    for one in settings.connections.values():
        sweep = Sweep(one.name, one.other_prefixes, known, times, is_ours)
        found[f"sweep-{one.name}"] = sweep
    tls = server_context(settings.tls_certificate, settings.tls_key)
    for name, properties in read_sources(settings.file).items():
        where = Surroundings(
            name, settings.connections, settings.broker, log, settings.listen_address, tls
        )
        found[name] = open_source(properties, where)
    return found


@contextmanager
def running_sources(
    sources: dict[str, DoorbellSource], listener: Listener, log: Log
) -> Iterator[None]:
    """Poll the sources while the block runs."""
    loops = {name: SourceLoop(name, one, listener.ring, log) for name, one in sources.items()}
    for name, loop in loops.items():
        HEALTH.add_optional(f"source {name}", loop.check_health)
        loop.start()
    try:
        yield
    finally:
        for loop in loops.values():
            loop.stop(STOP_S)
