"""Pieces of the report: tables, figures with their intervals."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any


def table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Markdown."""
    lines = [heads, ["---"] * len(heads), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def replace_section(page: Path, name: str, text: str) -> None:
    """Write text between the two markers that a page has of this name."""
    begin, end = f"<!-- {name}: begin -->", f"<!-- {name}: end -->"
    before, _, rest = page.read_text().partition(begin)
    page.write_text(f"{before}{begin}\n\n{text}\n\n{end}{rest.partition(end)[2]}")


def figure(found: Mapping[str, float], unit: float = 1.0) -> str:
    """The median, with the lowest and the highest."""
    median, low, high = (found[name] / unit for name in ("median", "low", "high"))
    return f"{median:.3g} ({low:.3g}-{high:.3g})" if median < 1e3 else f"{median:.0f}"


def commit(costs: Any) -> str:
    """Wall and CPU seconds."""
    return f"{costs['wall_s']['median']:.2f} / {costs['cpu_s']['median']:.2f}"


def megabytes(count: float) -> str:
    """Of 10^6 bytes."""
    return f"{count / 1e6:.0f}"


def first_cause(failure: str) -> str:
    """The Java exception and the begin of its words, without numbers; py4j's own first line names
    neither."""
    found = re.search(r"\w+(?:Exception|Error)\b:? [^\n]*", failure)
    return re.sub(r"\d+", "N", (found[0] if found else failure.partition("\n")[0])[:160])


def shortened(text: str) -> str:
    """An error in a line."""
    return " ".join(text.split())[:160]
