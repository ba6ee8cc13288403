"""Pauses of tables and of the fleet, and why orders of a table are held back."""

from __future__ import annotations

from typing import Any

from firnline_domain.base.reason_code import ReasonCode
from firnline_domain.base.values import Moment, Value
from firnline_domain.records.orders import PauseMaintenance, ResumeMaintenance

TOPIC = "operator-orders"
FLEET = "fleet"  # the key of what is for all tables
FLEET_PARTITION = 0  # the fleet's orders are in every partition; one of them says in what order


class HoldReason(ReasonCode):
    """Reasons why nothing is ordered for a table."""

    PAUSED = (
        "paused",
        "A person paused the table or all tables (`firnline pause`). `firnline resume` ends it.",
        "maintenance was paused by a person; `firnline status` shows how to end it",
    )
    FORMAT_VERSION_4 = (
        "format_version_4",
        "The table has format version 4, which Firnline does not support. It does nothing to "
        "the table.",
        "format version 4 is not supported: the table is left alone",
    )
    BLACKOUT = (
        "blackout",
        "It is a time of `firnline.blackout`.",
        "blackout: no task starts now (firnline.blackout)",
    )
    OUTSIDE_WINDOW = (
        "outside_window",
        "It is not a time of `firnline.window`.",
        "outside the maintenance window (firnline.window)",
    )
    UNREADABLE_WINDOW = (
        "unreadable_window",
        "`firnline.window` or `firnline.blackout` cannot be parsed. No task starts until it is "
        "corrected.",
        "no task starts, because firnline.window or firnline.blackout cannot be read",
    )
    FAILING = (
        "failing",
        "A step of the planner fails for this table because of an internal error. It is "
        "retried after 10 s, then after twice as long each time, at most 10 minutes. Other "
        "tables are not affected.",
        "the planner fails for this table and retries (see `dead-letters`)",
    )
    OTHER_MAINTAINER = (
        "other_maintainer",
        "Another maintainer rewrote the table within `firnline.yield-ms`. To leave the table "
        "to it, set `firnline.enabled=false`.",
        "another program maintains this table, too; Firnline waits (firnline.yield-ms)",
    )
    COMMIT_CEILING = (
        "commit_ceiling",
        "Firnline reached `firnline.commit.max-per-hour`.",
        "Firnline has committed as often as firnline.commit.max-per-hour allows; the next "
        "commit waits",
    )
    BATCHING = (
        "batching",
        "Firnline is near `firnline.commit.max-per-hour`. The task waits up to a minute to "
        "share a commit.",
        "near firnline.commit.max-per-hour: waits for other partitions to share the next commit",
    )
    SHADOW = (
        "shadow",
        "The task would run, but `firnline.shadow` is `true`.",
        "shadow mode (firnline.shadow): shown, not run",
    )


class Pause(Value):
    """A pause of one table or of all, until a person resumes."""

    since_ms: Moment
    by: str
    reason: str  # in the person's words; may be empty

    @property
    def to_note(self) -> str:
        """Return the text by which services confirm that all rests under this very pause."""
        return f"at rest, paused at {self.since_ms}"

    def __str__(self) -> str:
        return f"by {self.by}" + (f": {self.reason}" if self.reason else "")


class TableHold(Value):
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

    def fold_record(self, order: Any, partition: int) -> None:
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
        """Return True if this table was paused by its name; for None if the deployment was."""
        return table_key in self._pauses

    def pause_of(self, table_key: str | None) -> Pause | None:
        """Return the pause in force for a table; of the deployment for None."""
        return self._pauses.get(None) or self._pauses.get(table_key)
