"""Reason codes as readable text. A code that is not listed here is shown as it is."""

from __future__ import annotations

from collections.abc import Mapping
from string import Formatter

from firnline_domain.policy.cost.dollars import PACE, in_dollars
from firnline_domain.policy.reasons import Reason
from firnline_domain.policy.table_action.registry import ORDER_REASONS, WAIT_REASONS
from firnline_domain.policy.table_action.snapshot_retention import ExpiryReason
from firnline_domain.policy.triggers.table import ORDERS, TriggerReason
from firnline_domain.records.parts.conflict_reasons import ConflictReason
from firnline_domain.records.parts.sharing import SharingRefusal

from firnline_console.text.amounts import in_bytes

# Of the worker: why a task failed, had nothing to do, or went to Iceberg's own action.
ENDS = {
    "out_of_memory": "ran out of memory",
    "result_not_sent": "its result is larger than its topic accepts",
    "unreachable": "the catalog or storage did not respond",
    "deadline": "no result arrived before the deadline",
    "deadline_passed": "it started after its deadline",
    "already_committed": "it was committed before",
    "trigger_gone": "the snapshot at which it was scheduled is gone; decided again",
    "open_branch": "waits for the fast-forward of a branch that is ahead",
    "unpublished_wap": "waits for a staged commit (wap.id)",
    "rows_do_not_add_up": "row counts do not match",
    "keys_do_not_add_up": "key checksum does not match",
    "rows_differ": "rows differ from those before the commit",
    "too_large": "too many bytes for Iceberg's own reader",
    "too_many_deletes": "too many equality deletes for Iceberg's own reader",
    "history_hidden": "the catalog returns only the current snapshot",
    "parent_gone": "the snapshot before it has expired",
    "snapshot_gone": "its snapshot has expired",
    "not_planned": "Iceberg plans other files",
    "not_read": "it could not be read",
    "metadata_unreadable": "the table's metadata cannot be read",
    "java_failed": "Iceberg's Java library failed",
    "lost_race": "another commit came first",
    "unusable_property": "a table property makes every commit fail",
    "nothing_to_do": "nothing to do",
    "format_version_1": "format v1",
    "encrypted": "encrypted files",
    "write_format": "the table's write format is not Parquet",
    "avro_file": "Avro files",
    "orc_file": "ORC files",
    "float_key": "a floating-point delete key",
    "float_partition": "a floating-point partition column",
    "unreadable_file": "a file cannot be read",
    "unknown_catalog": "its catalog is not configured",
    "unknown_prefix": "the catalog returned another prefix",
    "another_spelling": "a position-delete file spells a path differently",
    "archive_changed": "the archive was replaced or changed",
    "archive_gone": "the archive does not exist any more",
    "archive_location": "the archive's location is not permitted",
    "archive_namespace": "the archive's namespace is not permitted",
    "archive_undone": "archived rows are in the table again",
    "archived_instead": "old rows are archived, not removed",
    "no_archive_age": "firnline.archive.after-hours is not set",
    "no_tags": "firnline.tags.create is not set",
    "no_ttl": "firnline.partitions.ttl-hours is not set",
    "not_an_archive": "a table of the archive's name exists",
    "not_wanted": "firnline.format-version=3 is not set any more",
    "unreadable_tags": "firnline.tags.create cannot be read",
    "writer_not_ready": "a writer may not support format v3",
    "archive_unfit": "the archive cannot contain the files",
    "branch_age_limit": "a task runs on a branch that would be removed",
    "clocks_differ": "clocks differ too much",
    "codec": "the table's codec is not supported",
    "delete_key_missing": "an equality-delete file lacks a key column",
    "duplicate_field_ids": "two columns of a file have the same field id",
    "key_in_collection": "a delete key inside a list or map",
    "key_type": "a delete key of an unsupported type",
    "link_in_location": "its location is behind a symbolic link",
    "listed_twice": "a file is in the table twice",
    "metadata_file_gone": "a manifest was removed while it was read",
    "metadata_of_another": "the catalog returned another table's metadata",
    "missing_partition_column": "a file lacks its partition column",
    "missing_required": "a required column has no value",
    "name_mapping": "schema.name-mapping.default cannot be read",
    "namespace_gone": "the namespace is gone",
    "no_field_ids": "a file has no field ids",
    "no_manifest_list": "a snapshot has no manifest list",
    "dotted_column": "every named column has a dot in its name",
    "no_primitive_column": "no column has a type for statistics",
    "no_sort_order": "the table has no sort order",
    "no_statistics": "no statistics were computed",
    "no_time_column": "no column gives the age of rows",
    "outside_locations": "files are written outside the table's locations",
    "partition_source_dropped": "a partition column was dropped",
    "remote_signing": "remote signing is not supported",
    "row_ids_unknown": "rows have no row ids before the next commit",
    "snapshots_hidden": "the catalog returned too few snapshots",
    "sort_unsupported": "only Iceberg's own action can rewrite these files",
    "tag_exists": "a tag already exists",
    "type_differs": "a file's column type does not fit",
    "type_geography": "a geography column",
    "type_geometry": "a geometry column",
    "type_unknown": "a member of type unknown",
    "unclear_path": "a path that readers interpret differently",
    "unknown_action": "the worker does not know the action",
    "unknown_column": "a property names a missing column",
    "unknown_transform": "an unknown partition transform",
    "unreadable_condition": "the condition cannot be parsed",
    "unreadable_vector": "a damaged deletion vector",
    "unsafe_property": "a table property is not allowed",
    "unsortable_column": "firnline.sort names an unsuitable column",
    "worker_error": "internal error of the worker",
}
CODES = (
    *TriggerReason,
    *Reason,
    *ORDER_REASONS,
    *WAIT_REASONS,
    *ExpiryReason,
    *ConflictReason,
    *SharingRefusal,
)
WORDS: dict[str, str] = {**ENDS, **{code.value: code.words for code in CODES}}


def label_of(code: str, numbers: Mapping[str, float] | None = None) -> str:
    """Return a phrase for a known code with its numbers, else the code itself. If a number that the
    phrase needs is missing, return only the code."""
    if code == "accumulating" and numbers and (text := _accumulating_text(numbers)):
        return text
    phrase = WORDS.get(code, code)
    needed = number_names(code)
    known = numbers or {}
    if not needed <= known.keys():
        return code.replace("_", " ") if code in WORDS else code
    text = phrase.format_map({name: _number_text(known[name]) for name in needed})
    if code in (TriggerReason.FULL_INTERVAL, TriggerReason.CLOSED):
        return f"{text}; full: every file is rewritten"
    says_extent = code in ORDERS and "min_dead_ratio" in known and _has_deletes(known)
    return f"{text}; {extent_of(known)}" if says_extent else text


def number_names(code: str) -> set[str]:
    """Return the names of the numbers in the phrase for a code."""
    return {name for _, name, _, _ in Formatter().parse(WORDS.get(code, code)) if name}


def numbers_text(code: str, numbers: Mapping[str, float]) -> str:
    """Return the phrase for a code with its numbers; '' if it has none, or one is not known."""
    needed = number_names(code)
    if not needed or not needed <= numbers.keys():
        return ""
    return WORDS[code].format_map({name: _number_text(numbers[name]) for name in needed})


def _has_deletes(numbers: Mapping[str, float]) -> bool:
    """Return whether a delete applies to a file; for a table without deletes the extent has no
    meaning."""
    return any(numbers.get(kind) for kind in DELETES)


def price_text(numbers: Mapping[str, float]) -> str:
    """Return the cost and the savings of a task on a whole table; '' if they were not estimated."""
    if "price_cpu_s" not in numbers:
        return ""
    costs = (
        f"costs about {_number_text(numbers['price_cpu_s'])} CPU s{_pace_text(numbers)} and "
        f"{_number_text(numbers['price_requests'])} requests "
        f"({in_dollars(numbers['price_dollars'])})"
    )
    spares = []
    if spared_s := numbers["gain_cpu_s_a_day"]:
        requests = _number_text(numbers["gain_requests_a_day"])
        spares.append(
            f"spares readers {_number_text(spared_s)} CPU s and {requests} requests a day"
        )
    if freed := numbers["gain_bytes"]:
        spares.append(f"frees {in_bytes(freed)}")
    if not spares:
        return costs
    return f"{costs}; {', '.join(spares)} ({in_dollars(numbers['gain_dollars_a_day'])} a day)"


def _pace_text(numbers: Mapping[str, float]) -> str:
    """Return the cost factor that the table's earlier results have shown; '' if it is 1."""
    pace = numbers.get(PACE, 1.0)
    return "" if pace == 1 else f" ({pace:.2g} times the benchmark, by earlier results)"


def extent_of(numbers: Mapping[str, float]) -> str:
    """Return how much a task rewrites, with the usual terms: full, minor, major."""
    ratio = numbers["min_dead_ratio"]
    if ratio <= 0:
        return "full: every file with deleted rows is rewritten"
    if ratio >= 1:
        return "minor: no larger file is rewritten"
    return f"major: larger files are rewritten from {ratio:.0%} of dead rows on"


def _number_text(value: float) -> str:
    """Return a number as text; a share and a few seconds keep their fraction."""
    return f"{value:,.0f}" if value == int(value) or value >= 10 else f"{value:.2g}"


KINDS = {
    "fragments": "small files",
    "equality_deletes": "equality deletes",
    "position_deletes": "position deletes",
    "global_deletes": "global equality deletes",
}
DELETES = [*(kind for kind in KINDS if kind != "fragments"), "dead_rows"]
LEAST = {"global_deletes": "min_equality_deletes"}  # the others' are named as they are


def _accumulating_text(numbers: Mapping[str, float]) -> str:
    """Return the files that count towards a threshold: only those added since the last rewrite. It
    left the rest as it was, and another rewrite would, too."""
    parts = [
        _progress_text(kind, noun, numbers) for kind, noun in KINDS.items() if numbers.get(kind)
    ]
    return f"not enough yet ({', '.join(parts)})" if parts else ""


def _progress_text(kind: str, noun: str, numbers: Mapping[str, float]) -> str:
    held, least = numbers[kind], numbers.get(LEAST.get(kind, f"min_{kind}"), 0)
    new = numbers.get(f"new_{kind}", held)
    if new >= held:
        return f"{noun} {held:,.0f} of {least:,.0f}"
    return (
        f"{noun} {new:,.0f} of {least:,.0f} since the last rewrite, which could do nothing about "
        f"the other {held - new:,.0f}"
    )
