"""`make docs-reference`: the tables of these pages, from the code.

Everything between a page's two markers is written here. Names, defaults, ranges, readers, writers
and what a reason means come from the code. Of properties the page itself keeps the last column, the
meaning: a new name gets an empty one, and `tests/test_docs.py` fails until somebody fills it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from enum import StrEnum
from pathlib import Path

from firnline_adapters.metric_list import ALL, DEAD, METRICS
from firnline_adapters.settings import Setting, all_settings
from firnline_cli.__main__ import GROUPS
from firnline_console.labels import label_of
from firnline_domain.policy.decisions import ORDERS, Reason
from firnline_domain.policy.expiry_reasons import ExpiryReason
from firnline_domain.reason_code import ReasonCode
from firnline_domain.records.conflict_reasons import ConflictReason
from firnline_domain.records.orphans import OrphanRefusal
from firnline_domain.records.sharing import SharingRefusal
from firnline_domain.settings.parquet import OF_COMMITS, PARQUET, PARQUET_COLUMNS
from firnline_domain.settings.property import ABOUT_WORKERS, WORKERS
from firnline_domain.settings.thresholds import PROPERTIES, RANGES, Thresholds
from firnline_schemas.topics import Topic, all_topics
from firnline_worker.comparing import COMPARED
from firnline_worker.eligibility import ACTION_REFUSED, HANDED_OVER, REFUSED
from firnline_worker.preconditions import HOLD_OFF, HOLD_OFF_MS

FOLDER = Path(__file__).parent
BLOCK = re.compile(r"(<!-- generated: (\S+) -->\n).*?(<!-- end -->)", re.DOTALL)
ROW = re.compile(r"^\| `([^`]+)` \|(?:.*\|)? ([^|]*) \|$", re.MULTILINE)


def table(head: str, rows: Iterable[str]) -> str:
    """`head` and rows as `a | b | c`."""
    line = " | ".join("---" for _ in head.split(" | "))
    return "".join(f"| {row} |\n" for row in (head, line, *rows))


def settings(_: Mapping[str, str]) -> str:
    return table("variable | default | read by | meaning", map(_setting, all_settings()))


def _setting(one: Setting) -> str:
    default = "required" if one.required else "unset" if one.default in ("", None) else one.default
    text = default if default in ("required", "unset") else f"`{default}`"
    return f"`{one.variable}` | {text} | {', '.join(one.services)} | {one.about}"


def metrics(_: Mapping[str, str]) -> str:
    rows = [
        f"`{one.scraped}` | {one.kind} | {', '.join(f'`{label}`' for label in one.labels)} | "
        f"{'all' if one.services == ALL else ', '.join(one.services)} | {one.meaning}"
        for one in METRICS.values()
    ]
    return table("metric | kind | labels | services | meaning", rows)


def topics(_: Mapping[str, str]) -> str:
    head = "topic | key | partitions | written by | read by | signature | what it carries"
    return table(head, map(_topic, all_topics()))


def _topic(one: Topic) -> str:
    who = f"{', '.join(one.written_by)} | {', '.join(one.read_by)}"
    by = one.fixed_partitions or ("buckets" if one.is_by_bucket else "homes")
    return f"`{one.name}` | {one.key} | {by} | {who} | {one.signature} | {one.about}"


def services(_: Mapping[str, str]) -> str:
    """The same by service."""
    written = {name for one in all_topics() for name in (*one.written_by, *one.read_by)}
    rows = [
        f"{name} | {_named(one for one in all_topics() if name in one.read_by)} | "
        f"{_named(one for one in all_topics() if name in one.written_by)}"
        for name in sorted(written)
    ]
    return table("service | reads | writes", rows)


def _named(found: Iterable[Topic]) -> str:
    return ", ".join(f"`{one.name}`" for one in found) or "-"


def properties(_: Mapping[str, str]) -> str:
    """The ten that people set: defaults and what a value may be."""
    rows = [f"{_property(name)} | {one.about}" for name, one in PROPERTIES.items() if one.is_common]
    return table("property | default | value | meaning", rows)


def advanced(_: Mapping[str, str]) -> str:
    rows = [
        f"{_property(name)} | {one.about}" for name, one in PROPERTIES.items() if not one.is_common
    ]
    rows += [
        f"`{name}` | `{HOLD_OFF_MS if name == HOLD_OFF else 0}` | {WORKERS[name].words} | {about}"
        for name, about in ABOUT_WORKERS.items()
    ]
    return table("property | default | value | meaning", rows)


def _property(name: str) -> str:
    field = PROPERTIES[name].field
    return f"`{name}` | `{_text(getattr(Thresholds(), field))}` | {_range(field)}"


def _text(value: object) -> str:
    if value is None or value == "":
        return "unset"
    return str(value).lower() if isinstance(value, bool) else str(value)


def _range(field: str) -> str:
    if field in RANGES:
        return RANGES[field].words
    value = getattr(Thresholds(), field)
    if isinstance(value, StrEnum):
        return ", ".join(f"`{one.value}`" for one in type(value))
    return "`true`, `false`" if isinstance(value, bool) else "text"


def parquet(_: Mapping[str, str]) -> str:
    columns = {f"{start}NAME": one for start, one in PARQUET_COLUMNS.items()}
    checked = {**PARQUET, **columns, **OF_COMMITS}
    rows = [f"`{name}` | {one.words}" for name, one in checked.items()]
    return table("property | value", rows)


def reasons(codes: Iterable[ReasonCode]) -> Callable[[Mapping[str, str]], str]:
    """One table of these codes, with the words that people see instead."""
    rows = [f"`{one.value}` | {one.words} | {one.meaning}" for one in codes]
    return lambda _: table("reason | shown as | meaning", rows)


def sentences(found: Mapping[str, str]) -> Callable[[Mapping[str, str]], str]:
    """One table of codes that are no members of an enumeration."""
    rows = [f"`{code}` | {label_of(code)} | {text}" for code, text in sorted(found.items())]
    return lambda _: table("reason | shown as | meaning", rows)


def commands(_: Mapping[str, str]) -> str:
    """As `firnline --help` groups them."""
    rows = [
        f"`firnline {name}` | {group} | {text}"
        for group, found in GROUPS.items()
        for name, text in found.items()
    ]
    return table("command | group | what it does", rows)


BLOCKS: dict[str, Callable[[Mapping[str, str]], str]] = {
    "settings": settings,
    "metrics": metrics,
    "commands": commands,
    "topics": topics,
    "services": services,
    "properties": properties,
    "advanced": advanced,
    "parquet": parquet,
    "ordered": reasons([one for one in Reason if one in ORDERS]),
    "kept-back": reasons([one for one in Reason if one not in ORDERS]),
    "expiry": reasons(ExpiryReason),
    "refused": reasons(ConflictReason),
    "shared": reasons(SharingRefusal),
    "handed-over": sentences(HANDED_OVER),
    "failed": sentences({**REFUSED, **ACTION_REFUSED}),
    "orphans-refused": reasons(OrphanRefusal),
    "compared": sentences(COMPARED),
    "dead-letters": lambda _: table(
        "reason | meaning", (f"`{code}` | {text}" for code, text in sorted(DEAD.items()))
    ),
}


def generated(page: str) -> str:
    """The page with its tables as the code has them now."""

    def made(block: re.Match[str]) -> str:
        return block[1] + BLOCKS[block[2]](dict(ROW.findall(block[0]))) + block[3]

    return BLOCK.sub(made, page)


def main() -> None:
    for path in FOLDER.glob("*.md"):
        path.write_text(generated(path.read_text()))


if __name__ == "__main__":
    main()
