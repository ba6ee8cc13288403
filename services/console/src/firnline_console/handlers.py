"""Records in, read model changed: nothing goes out."""

from __future__ import annotations

from collections.abc import Sequence

from firnline_domain.ports import Delivery, Inbox

from firnline_console.readmodel import ReadModel

TOPICS = (
    "table-commits",
    "file-changes",
    "rewrite-tasks",
    "expiry-tasks",
    "maintenance-events",
    "operator-orders",
    "table-states",
    "dead-letters",
)


def on_deliveries(
    model: ReadModel, generation: str, inbox: Inbox, deliveries: Sequence[Delivery]
) -> None:
    """Fold what was read, then let its offsets go: a crash between the two folds it twice.

    Raises ViewLost or RetryLater; nothing of the batch is done then.
    """
    if not deliveries:
        return
    model.apply(generation, [delivery.record for delivery in deliveries])
    for delivery in deliveries:
        inbox.done(delivery)
    inbox.commit()
