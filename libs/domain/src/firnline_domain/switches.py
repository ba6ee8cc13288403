"""Which switches are pulled, for those who do not keep the planner's state."""

from __future__ import annotations

from typing import Any

from firnline_domain.commands import PauseMaintenance, ResumeMaintenance
from firnline_domain.holds import Pause

TOPIC = "operator-orders"
FLEET = "fleet"  # the key of what is for all tables
FLEET_PARTITION = 0  # the fleet's orders are in every partition; one of them says in what order


class Switchboard:
    """Folds orders in the order of their partition. Not a clock decides which was the last: those
    of two operators may differ, and the planner goes by the same order."""

    def __init__(self) -> None:
        self._pulled: dict[str | None, Pause] = {}

    def fold(self, order: Any, partition: int) -> None:
        """Take one record of the topic in; other orders change nothing."""
        if not isinstance(order, PauseMaintenance | ResumeMaintenance):
            return
        if order.table is None and partition != FLEET_PARTITION:
            return
        uuid = order.table.uuid if order.table else None
        if isinstance(order, PauseMaintenance):
            self._pulled[uuid] = Pause(order.requested_at_ms, order.requested_by, order.reason)
        else:
            self._pulled.pop(uuid, None)

    def pause(self, table_uuid: str | None) -> Pause | None:
        """What holds for a table; None = what holds for all."""
        return self._pulled.get(None) or self._pulled.get(table_uuid)
