"""Pieces of the report: tables, figures with their intervals."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any


def table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Markdown."""
    lines = [heads, ["---"] * len(heads), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


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


def shortened(text: str) -> str:
    """An error in a line."""
    return " ".join(text.split())[:160]
