"""Choose how many copies of a topic's records are kept, and how many must have a record before it
counts."""

from __future__ import annotations

from dataclasses import dataclass

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient
from firnline_domain.errors import Misconfigured

from firnline_adapters.config.fleet_settings import MIN_IN_SYNC_REPLICAS, REPLICAS

WANTED = 3  # one broker may be away, and another be lost
MIN_IN_SYNC = "min.insync.replicas"
TIMEOUT_S = 30.0


@dataclass(frozen=True)
class Replication:
    """Replication of a topic that is created."""

    replicas: int
    min_in_sync: int
    remark: str = ""  # for people, where it is less than one would wish

    @property
    def config(self) -> dict[str, str]:
        """Return the topic setting for the number of in-sync replicas."""
        return {MIN_IN_SYNC: str(self.min_in_sync)}


def choose_replication(brokers: int, replicas: int | None, min_in_sync: int | None) -> Replication:
    """Choose replication factor and in-sync replicas for so many brokers; None = not set by the
    user. Raises Misconfigured."""
    if replicas is not None and not 1 <= replicas <= brokers:
        raise Misconfigured(
            f"{REPLICAS.variable}={replicas}: write 1 to {brokers}, the cluster has {brokers} "
            "brokers; or leave it out"
        )
    found = replicas or min(WANTED, brokers)
    least = max(1, found - 1) if min_in_sync is None else min_in_sync
    if not 1 <= least <= found:
        raise Misconfigured(
            f"{MIN_IN_SYNC_REPLICAS.variable}={least}: write 1 to {found}, the replication factor"
        )
    remark = ""
    if found < WANTED:
        cluster = f"the cluster has {brokers} broker{'' if brokers == 1 else 's'}"
        why = f"{REPLICAS.variable} is set" if replicas else cluster
        remark = (
            f"replication factor {found} instead of {WANTED}, because {why}: "
            "a disk failure can lose records"
        )
    return Replication(found, least, remark)


def replication_here(
    admin: AdminClient, replicas: int | None, min_in_sync: int | None
) -> Replication:
    """Choose replication factor and in-sync replicas by the brokers of this cluster; None = not set
    by the user. Raises Misconfigured, KafkaException."""
    brokers = len(admin.list_topics(timeout=TIMEOUT_S).brokers)
    if not brokers:  # the first one has just started
        raise KafkaException(KafkaError(KafkaError.BROKER_NOT_AVAILABLE))
    return choose_replication(brokers, replicas, min_in_sync)
