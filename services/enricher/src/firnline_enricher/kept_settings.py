"""Which properties of a table travel to the planner, and how much of them.

Known names first, others only as many as advice can speak of; a value that is longer than any
setting is travels as a text that no setting reads, so that it is unset and advised about, and never
cut into another value.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from firnline_domain.policy.expiry import SHARED_BY
from firnline_domain.records.tallies import TARGET_BYTES
from firnline_domain.settings.amoro import PREFIX as AMORO
from firnline_domain.settings.amoro import UNDERSTOOD
from firnline_domain.settings.in_force import OURS, PERIODS, READ_ELSEWHERE
from firnline_domain.settings.parquet import PARQUET, PARQUET_COLUMNS
from firnline_domain.settings.thresholds import PROPERTIES

MAX_BYTES = 1_000  # of a value in UTF-8
MAX_PERIOD_BYTES = 8_000  # of a window or a blackout: the holidays of ten years
MAX_NAME_BYTES = 200
MAX_OTHERS = 50  # names that are no settings, and yet begin like ours
SHOWN = 40  # characters of what is too long
_PERIODS = frozenset(name for name, one in PROPERTIES.items() if one.field in PERIODS)
_NAMESPACES = (OURS, AMORO, "table-expire.", "snapshot.keep.")
_TABLES = (*_NAMESPACES, "history.expire.", "write.delete.", *PARQUET_COLUMNS)
_EXACT = (
    TARGET_BYTES,
    "gc.enabled",
    "write.format.default",
    "write.parquet.compression-codec",
    "write.update.mode",
    "write.merge.mode",
    "write.metadata.delete-after-commit.enabled",
    *SHARED_BY,
    *PARQUET,
)
KNOWN = tuple(dict.fromkeys((*PROPERTIES, *READ_ELSEWHERE, *UNDERSTOOD, *_EXACT)))


def of_table(properties: Mapping[str, str]) -> dict[str, str]:
    """The table properties that matter to the planner."""
    known = [name for name in KNOWN if name in properties]
    return _kept(properties, known, _TABLES)


def of_namespace(properties: Mapping[str, str]) -> dict[str, str]:
    """The same of a namespace, whose properties are defaults for its tables: ours and Amoro's."""
    known = [name for name in KNOWN if name in properties and name.startswith(_NAMESPACES)]
    return _kept(properties, known, _NAMESPACES)


def _kept(
    properties: Mapping[str, str], known: Iterable[str], prefixes: tuple[str, ...]
) -> dict[str, str]:
    kept = {name: _capped(name, properties[name]) for name in known}
    others = sorted(name for name in properties if name.startswith(prefixes) and name not in kept)
    for name in others[:MAX_OTHERS]:
        if _size(name) <= MAX_NAME_BYTES:
            kept[name] = _capped(name, properties[name])
    return kept


def _capped(name: str, text: str) -> str:
    most = MAX_PERIOD_BYTES if name in _PERIODS else MAX_BYTES
    if len(text) <= most and _size(text) <= most:
        return text
    return f"{text[:SHOWN]}... ({len(text)} characters, too long)"


def _size(text: str) -> int:
    return len(text.encode(errors="replace"))
