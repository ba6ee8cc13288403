"""The one place that builds clients."""

from __future__ import annotations

from firnline_adapters.clock import now_ms
from firnline_adapters.consumer.threads import Threads
from firnline_adapters.kafka.assignments import FollowedAssignments
from firnline_adapters.kafka.client import KafkaInbox, KafkaPublisher
from firnline_adapters.kafka.poison_records import KafkaMarks, StartMarks
from firnline_adapters.observability.logs import Log
from firnline_adapters.policy_file import PolicyFile
from firnline_adapters.records.signing import signer_of
from firnline_domain.ports import Inbox
from firnline_iceberg.catalogs import CatalogTables

from firnline_enricher.handlers import TOPICS, EnricherHandlers
from firnline_enricher.pump import ANSWERERS, READERS, SLOW_READERS, EnricherPump
from firnline_enricher.settings import EnricherSettings

GROUP = "enricher"


def build_pump(settings: EnricherSettings, log: Log) -> tuple[EnricherPump, Inbox]:
    """Build a pump over Kafka and the catalog; nothing is read before its first step. Raises
    Misconfigured."""
    signer = signer_of(settings)
    places = FollowedAssignments(settings.broker, settings.buckets, log, signer)
    publisher = KafkaPublisher(settings.broker, settings.buckets, GROUP, places, signer)
    starts = StartMarks(KafkaMarks(settings.broker, GROUP))
    inbox = KafkaInbox(settings.broker, GROUP, TOPICS, publisher, log, starts=starts)
    policies = PolicyFile(settings.config, log)
    handlers = EnricherHandlers(CatalogTables(settings.connections), now_ms, policies.read_current)
    pool = Threads(READERS + SLOW_READERS + ANSWERERS)
    return EnricherPump(inbox, publisher, handlers, log, pool=pool), inbox
