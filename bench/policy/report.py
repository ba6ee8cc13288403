"""The accelerated hour as a table."""

from __future__ import annotations

from collections.abc import Sequence

from bench.policy.hours import Pair
from bench.rewrite.markdown import table

UNITS = {
    "bytes_written": ("MB written", 1e6),
    "bytes_read": ("MB read", 1e6),
    "cpu_s": ("CPU s of maintenance", 1.0),
    "read_s": ("CPU s of a scan at the end", 1.0),
}


def table_of(found: Sequence[Pair]) -> str:
    """A row per measure; those that are off by more than a quarter say so."""
    rows = []
    for pair in found:
        what, unit = UNITS[pair.measure]
        ratio = "-" if pair.ratio is None else f"{pair.ratio:.2f}"
        rows.append(
            (
                pair.system,
                pair.story,
                what,
                f"{pair.real / unit:.2f}",
                f"{pair.foretold / unit:.2f}",
                f"{ratio}{' **off**' if pair.is_off else ''}",
            )
        )
    heads = ("system", "table", "", "measured", "foretold", "measured / foretold")
    return table(heads, rows)
