"""Folds records into the read model; sends nothing."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

from firnline_adapters.kafka.poison_records import died_at
from firnline_adapters.observability import metrics
from firnline_adapters.observability.logs import Log
from firnline_domain.errors import RetryLater
from firnline_domain.policy.fleet.lanes import group_at, topics_of_groups
from firnline_domain.ports import Delivery, Inbox
from firnline_domain.records.orders import RewriteFiles
from firnline_domain.settings.groups import Group
from firnline_schemas.topics import all_topics

from firnline_console.read_model.fold import OfGroup
from firnline_console.read_model.port import ReadModel, ViewLost

# All that its file says the console reads; `schemas` is read by itself.
TOPICS = tuple(one.name for one in all_topics() if "console" in one.read_by and one.records)


def topics_read(groups: Collection[Group]) -> list[str]:
    """Return the topics to read for a deployment with these groups."""
    return [*TOPICS, *topics_of_groups(groups)]


def on_deliveries(
    model: ReadModel, generation: str, inbox: Inbox, deliveries: Sequence[Delivery], log: Log
) -> None:
    """Fold the deliveries in, then commit their offsets: after a crash between the two they are
    folded again. Raises ViewLost or RetryLater; then nothing of the batch is folded."""
    if not deliveries:
        return
    for delivery in deliveries:
        if deadly := died_at(delivery.deaths):
            _leave_out(delivery, deadly, log)
    read = [one for one in deliveries if not died_at(one.deaths)]
    try:
        model.apply(generation, [_to_fact(delivery) for delivery in read])
    except (ViewLost, RetryLater):
        raise
    except Exception:  # one record that cannot be folded must not keep the others out
        _fold_one_by_one(model, generation, read, log)
    for delivery in deliveries:
        inbox.mark_done(delivery)
    inbox.commit()


def _fold_one_by_one(
    model: ReadModel, generation: str, deliveries: Sequence[Delivery], log: Log
) -> None:
    """Fold record by record, without those that fail: they stay on their topic, and a rebuild by a
    newer console reads them."""
    for delivery in deliveries:
        try:
            model.apply(generation, [_to_fact(delivery)])
        except (ViewLost, RetryLater):
            raise
        except Exception as error:
            _leave_out(delivery, error, log)


def _leave_out(delivery: Delivery, error: Exception, log: Log) -> None:
    metrics.count("dead_letters", reason="not_folded")
    log.error("not_folded", error, topic=delivery.topic, offset=delivery.offset)


def _to_fact(delivery: Delivery) -> Any:
    """Return the record, with its group if it is a rewrite task on a group's topic: the record
    itself does not contain the group."""
    group = group_at(delivery.topic)
    if group and isinstance(delivery.record, RewriteFiles):
        return OfGroup(delivery.record, group)
    return delivery.record
