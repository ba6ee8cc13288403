"""The only module that builds clients."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

from firnline_adapters.clock import now_ms
from firnline_adapters.consumer.threads import Threads
from firnline_adapters.kafka.client import KafkaInbox, KafkaPublisher
from firnline_adapters.kafka.pauses import KafkaPauseReader
from firnline_adapters.kafka.poison_records import KafkaMarks, StartMarks
from firnline_adapters.observability.logs import Log
from firnline_adapters.records.signing import signer_of
from firnline_domain.commits.hold_header import HEADER, PASS
from firnline_domain.commits.output_lifetimes import Lifetimes
from firnline_domain.errors import RetryLater
from firnline_iceberg.catalog_probe import require_catalogs, told_by_java
from firnline_iceberg.catalogs import CatalogCommits, CatalogTables
from firnline_iceberg.java.jars import class_path
from firnline_iceberg.java.jvm import IcebergJvm
from firnline_iceberg.removal.sweep import OutputSweeper

from firnline_committer.background.sweeps import Sweeps
from firnline_committer.commit.committer import Committer
from firnline_committer.commit.held_catalog import open_catalog
from firnline_committer.handlers import CommitterHandlers
from firnline_committer.pump import CommitterPump
from firnline_committer.settings import CommitterSettings

GROUP = "committer"
TOPICS = ("task-results",)


@contextmanager
def open_pump(settings: CommitterSettings, log: Log) -> Iterator[CommitterPump]:
    """Open a pump over Kafka, the catalog and a JVM; it reads nothing before its first step. Waits
    for a catalog that does not answer. Raises Misconfigured, JavaFailed."""
    signer = signer_of(settings)
    jars = class_path(settings.iceberg_jar, require_catalogs(settings.connections, log))
    with IcebergJvm(jars, settings.heap_bytes) as iceberg:
        publisher = KafkaPublisher(settings.broker, settings.buckets, GROUP, signer=signer)
        lake = open_catalog(settings.connections)
        tables = lake.tables
        with told_by_java(settings.connections):
            commits = CatalogCommits(iceberg, settings.connections)
        lives = Lifetimes(settings.sweep_age_s)
        committer = Committer(lake, commits, log, now_ms, time.sleep, lives, signer.keys)
        # Without a cache: a sweep reads all, once.
        passing = {f"header.{HEADER}": PASS}
        uncached = CatalogTables(settings.connections, None, **passing)
        sweeps = Sweeps(
            OutputSweeper(uncached, now_ms, lives.sweep_ms, keys=signer.keys), log, now_ms
        )
        handlers = CommitterHandlers(committer, tables, now_ms)
        switches = KafkaPauseReader(settings.broker, signer)
        starts = StartMarks(KafkaMarks(settings.broker, GROUP))
        inbox = KafkaInbox(settings.broker, GROUP, TOPICS, publisher, log, starts=starts)
        try:
            yield CommitterPump(
                inbox,
                publisher,
                handlers,
                log,
                sweeps=sweeps,
                switches=switches,
                share=settings.compare_share,
                gather_s=settings.gather_s,
                pool=Threads(settings.commit_threads),
            )
        except RetryLater:
            inbox.close()
            raise
        except BaseException:  # a JVM that has ended, too: by what it was given to do
            inbox.close(died=True)
            raise
        else:
            inbox.close()
        finally:
            switches.close()
