"""Which switches are pulled, for those who do not keep the planner's state."""

from __future__ import annotations

from enum import StrEnum
from typing import Any

from firnline_domain.records.orders import PauseMaintenance, ResumeMaintenance
from firnline_domain.values import Value

TOPIC = "operator-orders"
FLEET = "fleet"  # the key of what is for all tables
FLEET_PARTITION = 0  # the fleet's orders are in every partition; one of them says in what order


class HoldReason(StrEnum):
    """Why nothing is ordered for a table that wants something. Stable, as `policy.Reason` is."""

    PAUSED = "paused"  # a person pulled the switch
    BLACKOUT = "blackout"  # firnline.blackout
    OUTSIDE_WINDOW = "outside_window"  # firnline.window
    UNREADABLE_WINDOW = "unreadable_window"  # one of them is not written as it has to be
    OTHER_MAINTAINER = "other_maintainer"  # somebody else maintains the table as well
    COMMIT_CEILING = "commit_ceiling"  # Firnline has committed as often as it may
    BATCHING = "batching"  # it has committed often: more are to share the next commit
    SHADOW = "shadow"  # firnline.shadow: all else being equal it would be ordered


class Pause(Value):
    """The switch, pulled: for one table or for all, until a person lets go."""

    since_ms: int
    by: str
    reason: str  # in the person's words; may be empty

    def __str__(self) -> str:
        return f"by {self.by}" + (f": {self.reason}" if self.reason else "")


class Hold(Value):
    """`until_ms`: when time alone ends it; None = only an event does. `detail` is for people."""

    reason: str  # a HoldReason
    until_ms: int | None = None
    since_ms: int | None = None
    detail: str = ""


class PauseState:
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
