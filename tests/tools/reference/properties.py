"""Table properties."""

from __future__ import annotations

from enum import StrEnum

from firnline_domain.settings.parquet import OF_COMMITS, PARQUET, PARQUET_COLUMNS
from firnline_domain.settings.thresholds import (
    ABOUT_WORKERS,
    PROPERTIES,
    RANGES,
    WORKERS,
    Thresholds,
)
from firnline_worker.rewrite.preconditions import HOLD_OFF, HOLD_OFF_MS

from tests.tools.reference.markdown import cell, table

HEAD = "property | default | value | meaning"
UNITS = ((86_400_000, "d"), (3_600_000, "h"), (60_000, "min"), (1_000, "s"))
SIZES = ((1 << 30, "GiB"), (1 << 20, "MiB"))


def list_common() -> str:
    """Return the table of the properties that most people need."""
    return table(HEAD, (_row(name) for name, one in PROPERTIES.items() if one.is_common))


def list_advanced() -> str:
    """Return the table of all other properties, by name."""
    rows = [_row(name) for name, one in PROPERTIES.items() if not one.is_common]
    rows += [
        f"`{name}` | {_default(name, HOLD_OFF_MS if name == HOLD_OFF else 0)} | "
        f"{WORKERS[name].allowed_text} | {cell(about)}"
        for name, about in ABOUT_WORKERS.items()
    ]
    return table(HEAD, sorted(rows))


def list_checked() -> str:
    """Return the table of Iceberg's properties whose values are checked."""
    columns = {f"{start}NAME": value for start, value in PARQUET_COLUMNS.items()}
    checked = {**PARQUET, **columns, **OF_COMMITS}
    return table(
        "property | value", (f"`{name}` | {one.allowed_text}" for name, one in checked.items())
    )


def _row(name: str) -> str:
    field = PROPERTIES[name].field
    default = _default(name, getattr(Thresholds(), field))
    return f"`{name}` | {default} | {_range(field)} | {cell(PROPERTIES[name].about)}"


def _default(name: str, value: object) -> str:
    """Return a default, a time or a size also in a larger unit."""
    if value is None or value == "":
        return "unset"
    text = str(value).lower() if isinstance(value, bool) else str(value)
    units = UNITS if name.endswith("-ms") else SIZES if name.endswith("-bytes") else ()
    for factor, unit in units:
        if isinstance(value, int) and value and value % factor == 0:
            return f"`{text}` ({value // factor} {unit})"
    return f"`{text}`"


def _range(field: str) -> str:
    if field in RANGES:
        return RANGES[field].allowed_text
    value = getattr(Thresholds(), field)
    if isinstance(value, StrEnum):
        return ", ".join(f"`{one.value}`" for one in type(value))
    return "`true`, `false`" if isinstance(value, bool) else "text"
