"""Pauses of tables and of the fleet, and why orders of a table are held back."""

from __future__ import annotations

from typing import Any

from firnline_domain.reason_code import ReasonCode
from firnline_domain.records.orders import PauseMaintenance, ResumeMaintenance
from firnline_domain.values import Moment, Value

TOPIC = "operator-orders"
FLEET = "fleet"  # the key of what is for all tables
FLEET_PARTITION = 0  # the fleet's orders are in every partition; one of them says in what order


class HoldReason(ReasonCode):
    """Why nothing is ordered for a table."""

    PAUSED = (
        "paused",
        "a person paused the table or the fleet (`firnline pause`)",
        "maintenance is paused by a person; `firnline status` says how to end it",
    )
    FORMAT_VERSION_4 = (
        "format_version_4",
        "the table is of format version 4, which Firnline does not read",
        "the table is of format version 4: Firnline does not read it, and leaves it alone",
    )
    BLACKOUT = (
        "blackout",
        "`firnline.blackout` holds now",
        "nothing is ordered during a blackout (firnline.blackout)",
    )
    OUTSIDE_WINDOW = (
        "outside_window",
        "`firnline.window` is closed now",
        "nothing is ordered outside the maintenance window (firnline.window)",
    )
    UNREADABLE_WINDOW = (
        "unreadable_window",
        "the window or blackout cannot be parsed; nothing is ordered until it is corrected",
        "nothing is ordered while firnline.window or firnline.blackout cannot be read",
    )
    FAILING = (
        "failing",
        "a step of the planner fails at this table, by an error of its own; it is tried again "
        "after a pause of 10 s that doubles up to 10 minutes, and stops no other table",
        "the planner fails at this table and tries again by itself (see `dead-letters`)",
    )
    OTHER_MAINTAINER = (
        "other_maintainer",
        "another maintainer rewrote the table recently",
        "somebody else maintains this table as well; Firnline yields to it for a time "
        "(firnline.yield-ms)",
    )
    COMMIT_CEILING = (
        "commit_ceiling",
        "`firnline.commit.max-per-hour` is used up",
        "Firnline has committed as often as firnline.commit.max-per-hour lets it; the next "
        "commit waits its turn",
    )
    BATCHING = (
        "batching",
        "near that limit: the order waits up to a minute to share a commit",
        "Firnline has committed to this table often within the hour (firnline.commit.max-per-"
        "hour): more partitions are to share the next commit",
    )
    SHADOW = (
        "shadow",
        "it would be ordered, but `firnline.shadow` is true",
        "shadow mode (firnline.shadow): it is decided and shown, and nothing is ordered",
    )


class Pause(Value):
    """A pause of one table or of all, until a person resumes."""

    since_ms: Moment
    by: str
    reason: str  # in the person's words; may be empty

    @property
    def note(self) -> str:
        """Which pause it is, for who confirms that all has come to rest under it."""
        return f"at rest, paused at {self.since_ms}"

    def __str__(self) -> str:
        return f"by {self.by}" + (f": {self.reason}" if self.reason else "")


class Hold(Value):
    """`until_ms`: when time alone ends it; None = only an event does. `detail` is for people."""

    reason: str  # a HoldReason
    until_ms: Moment | None = None
    since_ms: Moment | None = None
    detail: str = ""


class PauseState:
    """The pauses in force, for services without the planner's state.

    Orders count in the order of their partition, as in the planner. Clocks do not decide which one
    is the last: those of two operators may differ.
    """

    def __init__(self) -> None:
        self._pauses: dict[str | None, Pause] = {}

    def fold(self, order: Any, partition: int) -> None:
        """Apply one record of the topic; other orders change nothing."""
        if not isinstance(order, PauseMaintenance | ResumeMaintenance):
            return
        if order.table is None and partition != FLEET_PARTITION:
            return
        key = order.table.key if order.table else None
        if isinstance(order, PauseMaintenance):
            self._pauses[key] = Pause(order.requested_at_ms, order.requested_by, order.reason)
        else:
            self._pauses.pop(key, None)

    def is_paused(self, table_key: str | None) -> bool:
        """Whether this table was paused by its name; for None whether the fleet was."""
        return table_key in self._pauses

    def pause(self, table_key: str | None) -> Pause | None:
        """The pause in force for a table; of the fleet for None."""
        return self._pauses.get(None) or self._pauses.get(table_key)
