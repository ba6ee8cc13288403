"""Explanation why a table was, or was not, chosen: its settings, counters and decisions as JSON
values."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import Any

from firnline_domain.base.values import to_plain
from firnline_domain.identity import TableName
from firnline_domain.policy.cost.dollars import in_dollars
from firnline_domain.policy.reasons import NEEDS_NOTHING, Reason
from firnline_domain.policy.table_action.snapshot_retention import EXPIRE, ExpiryReason
from firnline_domain.policy.triggers.table import ORDERS, TRIGGERS
from firnline_domain.policy.triggers.v2_deletes import UPGRADE
from firnline_domain.records.pauses import HoldReason, TableHold
from firnline_domain.records.states import ExpiryPlan, PartitionState, TableState, TriggerForecast

from firnline_console.http.answers import hold_json, holds_json, table_json, task_json
from firnline_console.text.amounts import count_text, in_bytes, scope_label
from firnline_console.text.labels import label_of, number_names, numbers_text, price_text
from firnline_console.views.advice import AdviceView, advice_json
from firnline_console.views.catalogs import place_json
from firnline_console.views.reads import reads_json
from firnline_console.views.table_settings import settings_json
from firnline_console.views.tables import TableStates, TableView
from firnline_console.views.tasks import TaskStatus, TaskView


def explanation_json(
    view: TableView,
    states: TableStates,
    tasks: Sequence[TaskView],
    advice: AdviceView | None,
    now_ms: int,
    others: Sequence[TableName] = (),
) -> dict[str, Any]:
    """Return the answer of /api/tables/{table}/explain. It contains only `main`, the only branch
    that is maintained. `others`: tables with the same uuid that may remove files."""
    state = states.refs.get(view.summary.ref) if view.summary else None
    return {
        "table": table_json(view),
        "verdict": verdict_text(view, state),
        "same_uuid": [place_json(one) for one in others],
        "warnings": [shared_uuid_warning(others)] if others and not keeps_files(state) else [],
        "hold": hold_json(state.hold if state else None),
        "settings": settings_json(state),
        "advice": [advice_json(one) for one in advice.current_advice] if advice else [],
        "expiry": expiry_json(state),
        "actions": actions_json(state),
        "reads": reads_json(state),
        "partitions": [partition_json(part) for part in state.partitions] if state else [],
        "partitions_not_shown": state.partition_count - len(state.partitions) if state else 0,
        "tasks": {
            "open": [task_json(one, now_ms) for one in tasks if one.status is TaskStatus.ORDERED],
            "ended": [
                task_json(one, now_ms) for one in tasks if one.status is not TaskStatus.ORDERED
            ],
        },
        "now_ms": now_ms,
    }


def keeps_files(state: TableState | None) -> bool:
    """Return whether no file of the table may be removed: `gc.enabled=false`."""
    return state is not None and state.expiry_reason == ExpiryReason.GC_DISABLED


def shared_uuid_warning(others: Sequence[TableName]) -> str:
    """Return what threatens a table whose uuid other tables have, too, and the remedy."""
    named = ", ".join(one.full_name for one in others)
    return (
        f"{named} has the same uuid: a branch, or a table that was registered or restored twice. "
        "They may share files. Firnline removes no file of either (shared_identity), but an expiry "
        "by another engine may: drop one without purging it, or set gc.enabled=false in all but one"
    )


def verdict_text(view: TableView, state: TableState | None) -> str:
    """Return one sentence about the whole table."""
    if view.is_dropped:
        return "The table no longer exists."
    if state is None:
        return "The planner has not counted this table yet."
    if state.hold is not None and state.hold.reason == HoldReason.FAILING:
        return f"Delayed: {_hold_words(state.hold)}."
    if state.waiting_for_resync:
        return "Commits are missing from the counters; nothing is ordered until they are read."
    if state.hold is not None and state.hold.reason == HoldReason.SHADOW:
        return _shadow_verdict(state)
    if state.hold is not None:
        return f"Delayed: {_hold_words(state.hold)}."
    if not state.partitions:
        return "The table holds no files."
    return _partitions_verdict(state)


def _shadow_verdict(state: TableState) -> str:
    count = state.statuses.get("would_order", 0)
    if not count:
        return "Shadow mode: nothing would be ordered now."
    share = f"{count_text(count, 'partition')} of {state.partition_count:,}"
    text = f"Shadow mode: a rewrite of {share} would be ordered now."
    wanting = [part for part in state.partitions if part.status == "would_order"]
    if not wanting:
        return text
    where, why = scope_label(wanting[0].scope), partition_words(wanting[0])
    return f"{text} The deepest, {where}: {why}."


def _hold_words(hold: TableHold) -> str:
    since, until = _minute_text(hold.since_ms), _minute_text(hold.until_ms)
    parts = (
        label_of(hold.reason),
        f"since {since}" if since else "",
        f"until {until}" if until else "",
        # How to write a window stands with the setting, and in the advice: two lines of it.
        "" if hold.reason == HoldReason.UNREADABLE_WINDOW else hold.detail,
    )
    return ", ".join(part for part in parts if part)


def _minute_text(at_ms: int | None) -> str:
    return "" if at_ms is None else f"{datetime.fromtimestamp(at_ms // 1000, UTC):%Y-%m-%d %H:%MZ}"


def _partitions_verdict(state: TableState) -> str:
    at_work = state.statuses.get("in_flight", 0)
    parked = state.statuses.get("parked", 0)
    debt = state.debt_files
    if parked:
        free = f"`firnline unpark {state.table.dotted_name}` retries them"
        return f"{count_text(parked, 'partition')} of {state.partition_count:,} suspended; {free}."
    if at_work:
        return (
            f"{count_text(at_work, 'partition')} of {state.partition_count:,} being rewritten now."
        )
    first = state.partitions[0]
    where, why = first.scope.label, partition_words(first)
    if debt == 0 and first.reason in NEEDS_NOTHING:
        return "Healthy: no rewrite would improve it."
    return f"{count_text(debt, 'file')} of debt. The deepest, {where}: {why}."


def expiry_json(state: TableState | None) -> dict[str, Any]:
    """Return the last decision about snapshot expiry."""
    reason = state.expiry_reason if state else ""
    plan = state.expiry_plan if state else None
    numbers = state.action_numbers.get(EXPIRE, {}) if state else {}
    return {
        "reason": reason,
        "words": "; ".join(filter(None, (_expiry_words(plan, reason), price_text(numbers)))),
        "numbers": numbers,
        "plan": to_plain(plan) if plan else None,
        "snapshots": state.snapshot_count if state else None,
        "oldest_snapshot_ms": state.oldest_snapshot_ms if state else None,
    }


def _expiry_words(plan: ExpiryPlan | None, reason: str) -> str:
    if plan:
        return expiry_plan_text(plan)
    return label_of(reason) if reason else "not decided yet"


def actions_json(state: TableState | None) -> dict[str, Any]:
    """Return the last decision about each other action on the whole table."""
    actions = state.actions if state else {}
    numbers = state.action_numbers if state else {}
    told = {
        name: {
            "reason": why,
            "words": "; ".join(filter(None, (label_of(why, known), price_text(known)))),
            "numbers": known,
        }
        for name, why in actions.items()
        for known in [numbers.get(name, {})]
    }
    if state is not None and state.v2_partitions is not None:
        known = told.get(UPGRADE, {"reason": ""})
        told[UPGRADE] = {**known, "words": upgrade_text(state.v2_partitions, state)}
    return told


def upgrade_text(left: int, state: TableState) -> str:
    """Return the progress of a table's upgrade to v3."""
    if not left:
        return "v3: no delete file of v2 is left"
    return (
        f"v3: {left:,} of {count_text(state.partition_count, 'partition')} hold delete files of v2"
    )


def expiry_plan_text(plan: ExpiryPlan) -> str:
    """Return the announced expiry, when it begins, and how to stop it."""
    snapshots, files = count_text(plan.snapshots, "snapshot"), count_text(plan.files, "file")
    return (
        f"expiry of {snapshots} ({files}, about {in_bytes(plan.bytes)}) begins at "
        f"{_minute_text(plan.begins_ms)}; set firnline.expire.enabled=false to stop it, "
        "=true to begin at once"
    )


PRICED = frozenset({*ORDERS, Reason.WAITING_FOR_BUDGET})


def partition_words(part: PartitionState) -> str:
    """Return the last decision in words; `reason` of a paused partition is that of its last
    failure."""
    words = label_of(part.reason, part.numbers)
    if part.reason in PRICED and "rewrite_dollars" in part.numbers:
        price, spared = part.numbers["rewrite_dollars"], part.numbers["spared_dollars_a_day"]
        words += f"; costs {in_dollars(price)}, spares readers {in_dollars(spared)} a day"
    if part.status not in ("backing_off", "parked") or not part.failures:
        return words
    times = "once" if part.failures == 1 else f"{part.failures:,} times in a row"
    return f"{words}; failed {times}"


def partition_json(part: PartitionState) -> dict[str, Any]:
    """Return a partition's files, and its last decision with the numbers."""
    return {
        "spec_id": part.scope.spec_id,
        "partition": part.scope.partition,
        "label": scope_label(part.scope),
        "status": part.status,
        "reason": part.reason,
        "words": partition_words(part),
        "numbers": part.numbers,
        "until_ms": part.until_ms,
        "failures": part.failures,
        "task_id": part.task_id,
        "debt_files": part.debt_files,
        "triggers": [*triggers_json(part)] if part.triggers else [],
        **holds_json(part.holds),
    }


def triggers_json(part: PartitionState) -> Iterator[dict[str, Any]]:
    """Yield every trigger of a rewrite in the order in which they are asked, with its numbers, and
    when it fires: now, later, after a commit, or never, because its setting or the partition is not
    of that kind."""
    left = list(part.triggers)
    for trigger in TRIGGERS:
        found = left.pop(0) if left and left[0].reason == trigger.reason else None
        yield {
            "trigger": trigger.reason,
            "fires": _firing_text(found),
            "at_ms": found.at_ms if found else None,
            "waits_for": found.waits_for if found else "",
            "words": numbers_text(trigger.reason, part.numbers),
            "numbers": {
                name: part.numbers[name]
                for name in number_names(trigger.reason)
                if name in part.numbers
            },
        }


def _firing_text(found: TriggerForecast | None) -> str:
    if found is None:
        return "off"
    if found.due:
        return "now"
    if found.waits_for:
        return "waiting"
    return "after a commit" if found.at_ms is None else "later"
