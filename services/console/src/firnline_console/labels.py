"""Reason codes as people read them. A code that is not listed here is shown as it is."""

from __future__ import annotations

from collections.abc import Mapping
from string import Formatter

# Of `firnline_domain.policy.rewrite`; {names} are the numbers that travel with the decision.
DECISIONS = {
    "equality_deletes": "{equality_deletes} equality-delete files; "
    "{min_equality_deletes} are enough for a rewrite",
    "position_deletes": "{position_deletes} position-delete files or deletion vectors; "
    "{min_position_deletes} are enough for a rewrite",
    "fragments": "{fragments} small files; {min_fragments} are enough for a rewrite",
    "global_deletes": "{global_deletes} global equality-delete files; "
    "{min_equality_deletes} are enough for a rewrite",
    "size_error": "its files are off their target by {size_error} of it, and a merge mends "
    "{mendable_size_error}; {max_size_error} is enough for a rewrite",
    "read_debt": "readers have paid their part (firnline.rewrite.payback) of what its rewrite "
    "costs ({read_s_spared} CPU s a scan, {rewrite_cpu_s} for the rewrite)",
    "undersized": "{undersized} files below their size fill one of the target size",
    "old_debt": "below every threshold, but some of it has waited longer than "
    "firnline.rewrite.max-age-ms",
    "recycling": "what was deleted by position has outlasted the retention, and would stay on "
    "the storage",
    "healthy": "nothing to do",
    "accumulating": "not enough yet",  # with its numbers: `_accumulating`
    "fixed_point": "the last rewrite left as much; another would change nothing",
    "minimum_gain": "its rewrite costs {rewrite_cpu_s} CPU s and spares a scan {read_s_spared}; "
    "waits until readers have paid their part of it, at most firnline.rewrite.max-wait-ms",
    "quiet_period": "writers are at work in it right now; waits until they pause",
    "hot": "a writer changes rows of its files (DELETE, UPDATE, MERGE) and would fail; waits until "
    "it pauses, at most firnline.rewrite.hot-max-ms",
    "in_flight": "a task is at work",
    "cooling": "rests after its last rewrite",
    "backing_off": "waits after a failure, {failures} in a row",
    "parked": "parked: no retry helped, {failures} failures in a row",
    "undone": "its last rewrite was undone by a person; `firnline unpark` lets it go on",
    "paused": "maintenance is paused by a person; `firnline status` says how to end it",
    "blackout": "nothing is ordered during a blackout (firnline.blackout)",
    "outside_window": "nothing is ordered outside the maintenance window (firnline.window)",
    "unreadable_window": "nothing is ordered while firnline.window or firnline.blackout cannot be "
    "read",
    "other_maintainer": "somebody else maintains this table as well; Firnline yields to it for a "
    "time (firnline.yield-ms)",
    "commit_ceiling": "Firnline has committed as often as firnline.commit.max-per-hour "
    "lets it; the next commit waits its turn",
    "batching": "Firnline has committed to this table often within the hour "
    "(firnline.commit.max-per-hour): more partitions are to share the next commit",
    "shadow": "shadow mode (firnline.shadow): it is decided and shown, and nothing is ordered",
    "waiting_for_budget": "deserves a rewrite, and others spare more for what they cost: its "
    "turn within FIRNLINE_BUDGET_GB_HOURS comes",
    "table_busy": "{in_flight} tasks of this table are out already, its limit "
    "(firnline.rewrite.max-in-flight)",
    "waiting_for_resync": "commits are missing from the counters; the enricher was asked for them",
    "disabled": "switched off (firnline.enabled)",
    "name_too_long": "its partition values are longer than 2,000 characters: not maintained",
    "removed": "the table is gone",
}
# Of `firnline_domain.policy.expiry`.
EXPIRIES = {
    "old_snapshots": "snapshots are older than the table keeps them",
    "expiry_in_flight": "an expiry is at work",
    "gc_disabled": "forbidden by gc.enabled=false",
    "nothing_old_enough": "no snapshot is old enough",
    "too_few_snapshots": "no more snapshots than the table always keeps",
    "too_soon": "the last expiry was a short while ago",
    "held_by_task": "a task in flight may still read what is old enough",
    "expiry_announced": "what would go is being found out, to be announced",
    "grace_period": "announced, and not begun yet (firnline.expire.grace-ms); "
    "firnline.expire.enabled=false stops it, =true lets it begin at once",
    "expire_disabled": "switched off (firnline.expire.enabled=false)",
    "external_files": "the table has, or had, files outside its own locations, which others may "
    "need; firnline.expire.enabled=true of the table lets them go",
    "snapshots_unknown": "the snapshots are not known yet",
}
# Of `firnline_domain.records.events.ConflictReason`.
CONFLICTS = {
    "inputs_gone": "a file that it replaces has gone meanwhile",
    "applied_delete_gone": "a delete that it applied was rolled back",
    "applied_position_delete_gone": "a position delete that it applied is not there any more",
    "new_position_deletes": "a writer deleted rows in a file that it replaces",
    "new_deletion_vectors": "a writer deleted rows in a file that it replaces",
    "old_equality_delete": "an equality delete appeared that it has not applied",
    "hazard_10312": "concurrent deletes would have been lost",
    "spec_changed": "the partition spec changed",
    "schema_changed": "the schema, or the name mapping, changed",
    "format_changed": "the table's format version changed",
    "duplicate_files": "a data or delete file is in the table twice",
    "start_not_ancestor": "the table was rolled back past its start",
    "table_gone": "the table is gone",
    "ref_gone": "the branch is gone",
    "too_old": "it waited too long for its commit; its files may be swept",
    "outputs_gone": "its own output files have gone",
    "pin_lost": "writers were faster at every try",
    "proof_failed": "rows in and rows out did not add up",
    "invalid_outputs": "the result named files that are not its task's",
    "rejected": "the catalog refused the commit",
}
# Of the worker: why a task failed, had nothing to do, or went to Iceberg's own action.
ENDS = {
    "out_of_memory": "ran out of memory",
    "result_not_sent": "its result is too big for the broker",
    "unreachable": "catalog or storage was not reachable",
    "deadline": "no answer came before the deadline",
    "deadline_passed": "it began after its deadline",
    "already_committed": "it was committed before",
    "trigger_gone": "the snapshot that it was ordered at is gone; it is decided anew",
    "open_branch": "left alone while a branch is ahead of it, for a fast-forward",
    "unpublished_wap": "left alone while a staged commit (wap.id) is not published",
    "rows_do_not_add_up": "rows in and rows out did not add up",
    "keys_do_not_add_up": "the keys of the rows in and out did not add up",
    "rows_differ": "read back, its rows are not those it replaced",
    "too_large": "too many bytes for Iceberg's own reader",
    "too_many_deletes": "too many equality deletes for Iceberg's own reader",
    "parent_gone": "the snapshot before it is expired",
    "snapshot_gone": "its snapshot is expired",
    "not_planned": "Iceberg does not plan the same files",
    "not_read": "it could not be read",
    "metadata_unreadable": "the table's metadata cannot be read",
    "nothing_to_do": "found nothing to do",
    "format_version_1": "format v1",
    "encrypted": "encrypted files",
    "write_format": "the table writes another format than Parquet",
    "avro_file": "Avro files",
    "orc_file": "ORC files",
    "float_key": "a floating-point delete key",
    "float_partition": "a floating-point partition column",
    "unreadable_file": "a file cannot be read",
}
WORDS = {**DECISIONS, **EXPIRIES, **CONFLICTS, **ENDS}


def label_of(code: str, numbers: Mapping[str, float] | None = None) -> str:
    """A phrase for a known code with its numbers, else the code itself.

    Without the numbers that a phrase needs, the code is all that can be said.
    """
    if code == "accumulating" and numbers and (text := _accumulating(numbers)):
        return text
    phrase = WORDS.get(code, code)
    needed = {name for _, name, _, _ in Formatter().parse(phrase) if name}
    known = numbers or {}
    if not needed <= known.keys():
        return code.replace("_", " ") if code in WORDS else code
    return phrase.format_map({name: _shown(known[name]) for name in needed})


def _shown(value: float) -> str:
    """A share and a few seconds keep their fraction."""
    return f"{value:,.0f}" if value == int(value) or value >= 10 else f"{value:.2g}"


KINDS = {
    "fragments": "small files",
    "equality_deletes": "equality deletes",
    "position_deletes": "position deletes",
    "global_deletes": "global equality deletes",
}
LEAST = {"global_deletes": "min_equality_deletes"}  # the others' are named as they are


def _accumulating(numbers: Mapping[str, float]) -> str:
    """Counted against a threshold is only what came since the last rewrite: the rest it has left
    as it is, and another would."""
    parts = [_counted(kind, noun, numbers) for kind, noun in KINDS.items() if numbers.get(kind)]
    return f"not enough yet ({', '.join(parts)})" if parts else ""


def _counted(kind: str, noun: str, numbers: Mapping[str, float]) -> str:
    held, least = numbers[kind], numbers.get(LEAST.get(kind, f"min_{kind}"), 0)
    new = numbers.get(f"new_{kind}", held)
    if new >= held:
        return f"{noun} {held:,.0f} of {least:,.0f}"
    return (
        f"{noun} {new:,.0f} of {least:,.0f} since the last rewrite, which could do nothing about "
        f"the other {held - new:,.0f}"
    )
