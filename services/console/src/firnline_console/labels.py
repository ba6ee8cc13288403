"""Reason codes as people read them. A code that is not listed here is shown as it is."""

from __future__ import annotations

from collections.abc import Mapping
from string import Formatter

from firnline_domain.policy.decisions import ORDERS, Reason
from firnline_domain.policy.expiry_reasons import ExpiryReason
from firnline_domain.policy.prices import in_dollars
from firnline_domain.policy.table_prices import PACE
from firnline_domain.records.conflict_reasons import ConflictReason
from firnline_domain.records.sharing import SharingRefusal

from firnline_console.amounts import in_bytes

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
    "history_hidden": "the catalog shows no snapshot but the current one",
    "parent_gone": "the snapshot before it is expired",
    "snapshot_gone": "its snapshot is expired",
    "not_planned": "Iceberg does not plan the same files",
    "not_read": "it could not be read",
    "metadata_unreadable": "the table's metadata cannot be read",
    "java_failed": "Iceberg's Java library could not do it",
    "lost_race": "another commit came first",
    "unusable_property": "a property of the table stops every commit",
    "nothing_to_do": "found nothing to do",
    "format_version_1": "format v1",
    "encrypted": "encrypted files",
    "write_format": "the table writes another format than Parquet",
    "avro_file": "Avro files",
    "orc_file": "ORC files",
    "float_key": "a floating-point delete key",
    "float_partition": "a floating-point partition column",
    "unreadable_file": "a file cannot be read",
    "unknown_catalog": "its catalog is not configured there",
    "unknown_prefix": "the catalog led to another prefix",
}
CODES = (*Reason, *ExpiryReason, *ConflictReason, *SharingRefusal)
WORDS: dict[str, str] = {**ENDS, **{code.value: code.words for code in CODES}}


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
    text = phrase.format_map({name: _shown(known[name]) for name in needed})
    if code in (Reason.FULL_INTERVAL, Reason.CLOSED):
        return f"{text}; full: every file is rewritten"
    says_extent = code in ORDERS and "min_dead_ratio" in known and _reaches(known)
    return f"{text}; {extent_of(known)}" if says_extent else text


def _reaches(numbers: Mapping[str, float]) -> bool:
    """Whether a delete reaches a file; of a table without deletes the extent says nothing."""
    return any(numbers.get(kind) for kind in DELETES)


def priced(numbers: Mapping[str, float]) -> str:
    """What an order on a whole table costs, and what it spares; '' where nobody has weighed it."""
    if "price_cpu_s" not in numbers:
        return ""
    costs = (
        f"costs about {_shown(numbers['price_cpu_s'])} CPU s{_pace(numbers)} and "
        f"{_shown(numbers['price_requests'])} requests ({in_dollars(numbers['price_dollars'])})"
    )
    spares = []
    if spared_s := numbers["gain_cpu_s_a_day"]:
        requests = _shown(numbers["gain_requests_a_day"])
        spares.append(f"spares readers {_shown(spared_s)} CPU s and {requests} requests a day")
    if freed := numbers["gain_bytes"]:
        spares.append(f"frees {in_bytes(freed)}")
    if not spares:
        return costs
    return f"{costs}; {', '.join(spares)} ({in_dollars(numbers['gain_dollars_a_day'])} a day)"


def _pace(numbers: Mapping[str, float]) -> str:
    """What earlier orders have shown of it here."""
    pace = numbers.get(PACE, 1.0)
    return "" if pace == 1 else f" ({pace:.2g} times the benchmark, by earlier results)"


def extent_of(numbers: Mapping[str, float]) -> str:
    """How much an order rewrites, by the names that peers have for it."""
    ratio = numbers["min_dead_ratio"]
    if ratio <= 0:
        return "full: every file that a delete reaches is rewritten"
    if ratio >= 1:
        return "minor: no larger file is rewritten"
    return f"major: larger files are rewritten from {ratio:.0%} of dead rows on"


def _shown(value: float) -> str:
    """A share and a few seconds keep their fraction."""
    return f"{value:,.0f}" if value == int(value) or value >= 10 else f"{value:.2g}"


KINDS = {
    "fragments": "small files",
    "equality_deletes": "equality deletes",
    "position_deletes": "position deletes",
    "global_deletes": "global equality deletes",
}
DELETES = [*(kind for kind in KINDS if kind != "fragments"), "dead_rows"]
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
