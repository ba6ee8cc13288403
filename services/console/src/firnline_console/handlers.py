"""Records in, read model changed: nothing goes out."""

from __future__ import annotations

from collections.abc import Sequence

from firnline_adapters import metrics
from firnline_adapters.logs import Log
from firnline_domain.errors import RetryLater
from firnline_domain.ports import Delivery, Inbox

from firnline_console.readmodel import ReadModel, ViewLost

TOPICS = (
    "table-commits",
    "file-changes",
    "rewrite-tasks",
    "rewrite-tasks-heavy",
    "expiry-tasks",
    "maintenance-events",
    "operator-orders",
    "table-states",
    "advice",
    "dead-letters",
)


def on_deliveries(
    model: ReadModel, generation: str, inbox: Inbox, deliveries: Sequence[Delivery], log: Log
) -> None:
    """Fold what was read, then let its offsets go: a crash between the two folds it twice.

    Raises ViewLost or RetryLater; nothing of the batch is done then.
    """
    if not deliveries:
        return
    try:
        model.apply(generation, [delivery.record for delivery in deliveries])
    except (ViewLost, RetryLater):
        raise
    except Exception:  # one record that cannot be folded must not keep the others out
        _one_by_one(model, generation, deliveries, log)
    for delivery in deliveries:
        inbox.done(delivery)
    inbox.commit()


def _one_by_one(
    model: ReadModel, generation: str, deliveries: Sequence[Delivery], log: Log
) -> None:
    """Leave out what fails; it stays on its topic, and a rebuild by a newer console reads it."""
    for delivery in deliveries:
        try:
            model.apply(generation, [delivery.record])
        except (ViewLost, RetryLater):
            raise
        except Exception as error:
            metrics.count("dead_letters", reason="not_folded")
            log.error("not_folded", error, topic=delivery.topic, offset=delivery.offset)
