"""The prices of reads and conversions as tables."""

from __future__ import annotations

import statistics
from typing import Any

from bench.rewrite.markdown import table
from bench.rewrite.prices import in_code, off

UNITS = {
    "fixed": "a query or task",
    "files": "a data file",
    "bytes": "a byte of living rows, or of keys",
    "delete_files": "a delete file",
    "deletes": "an equality delete",
    "loads": "an equality delete and data file that it reaches",
    "positions": "a row that a position delete masks, its bytes too",
    "vector_positions": "a row that a vector masks, its bytes too",
    "written": "a byte written",
}
WHO = {
    "read": "Spark reads",
    "convert": "conversion, both",
    "convert_worker": "conversion, worker",
    "convert_commit": "conversion, committer",
    "convert_commit_wall": "conversion, committer, wall",
    "compact_worker": "compaction of small files, worker",
    "compact_commit": "compaction of small files, committer",
}


def prices_tables(result: Any) -> str:
    """The constants, then the cases that they were fitted to."""
    return "\n\n".join([_constants(result), _reads(result), _rewrites(result)])


def _constants(result: Any) -> str:
    code = in_code()
    rows = []
    for who, prices in result["prices"].items():
        for term, price in prices.items():
            known = code.get(who, {}).get(term)
            wrong = known is not None and off(price, known)
            said = "-" if known is None else f"{known:.2g}{' (**off**)' if wrong else ''}"
            rows.append((WHO[who], UNITS[term], f"{price:.2g}", said))
    heads = ("who", "CPU seconds for", "measured", "in the code")
    return table(heads, rows)


def _reads(result: Any) -> str:
    rows = [
        (
            one["name"],
            _count(one, "files"),
            _count(one, "delete_files"),
            _count(one, "loads"),
            _count(one, "positions", "vector_positions"),
            f"{min(one['cpu_s']):.2f}",
            f"{statistics.median(one['cpu_s']):.2f}",
        )
        for one in result["reads"]
    ]
    heads = (
        "read by Spark", "data files", "delete files", "deletes x files", "masked rows",
        "CPU s, least", "median",
    )  # fmt: skip
    return table(heads, rows)


def _rewrites(result: Any) -> str:
    walls = {one["name"]: min(one["cpu_s"]) for one in result["commit_walls"]}
    rows = [
        (
            one["worker"]["name"],
            _count(one["worker"], "files"),
            _count(one["worker"], "deletes"),
            f"{one['worker']['amounts'].get('bytes', 0) / 1e6:.2f}",
            f"{min(one['worker']['cpu_s']):.2f}",
            f"{min(one['commit']['cpu_s']):.2f}",
            f"{walls[name]:.2f}" if (name := one["worker"]["name"]) in walls else "-",
        )
        for one in result["rewrites"]
    ]
    heads = (
        "rewrite", "data files", "equality deletes", "MB (of keys)", "worker CPU s",
        "committer CPU s", "its wall s",
    )  # fmt: skip
    return table(heads, rows)


def _count(one: Any, *terms: str) -> str:
    return f"{sum(one['amounts'].get(term, 0) for term in terms):,.0f}"
