"""The peers' part of the report."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from bench.rewrite.markdown import commit, figure, shortened, table


def peers_tables(result: Any) -> str:
    """The table of all that ended, and a sentence for each that did not or has other rows."""
    heads = (
        "engine", "start wall / CPU s", "first wall / CPU s", "warm wall s", "warm CPU s",
        "peak PSS MB", "output MB", "files", "same rows", "same rows, keys with NULL",
        "commit wall / CPU s",
    )  # fmt: skip
    kinds = result["summary"]
    ended = [who for who in kinds["nulls"] if who not in result["failed"]]
    rows = [_peer(who, {kind: found[who] for kind, found in kinds.items()}) for who in ended]
    told = [f"- {who} was not run: {shortened(why)}." for who, why in result["absent"].items()]
    told += [f"- **{who} failed**: `{shortened(why)}`" for who, why in result["failed"].items()]
    told += _wrong(result, kinds)
    return "\n\n".join([table(heads, rows), *(["\n".join(told)] if told else ())])


def _peer(who: str, by_kind: Mapping[str, Any]) -> tuple[str, ...]:
    first, warm = by_kind["first"], by_kind["warm"]
    start = f"{first['start_s']['median']:.1f} / {first['start_cpu_s']['median']:.1f}"
    right = first["same_rows"] and warm["same_rows"]
    return (
        who,
        start,
        commit(first),
        figure(warm["wall_s"]),
        figure(warm["cpu_s"]),
        figure(warm["pss_peak"], 1e6),
        f"{warm['output_bytes']['median'] / 1e6:.1f}",
        str(warm["output_files"]),
        "yes" if right else "**no**",
        "yes" if by_kind["nulls"]["same_rows"] else "**no**",
        commit(warm["commit"]) if warm["commit"] else "in it",
    )


def _wrong(result: Any, kinds: Mapping[str, Any]) -> Iterator[str]:
    """A sentence for every result that is not the table."""
    for kind, found in kinds.items():
        right = result["nulls_table" if kind == "nulls" else "table"]["rows_out"]
        for who, one in found.items():
            if not one["same_rows"]:
                yield f"- **{who} ({kind}) has other rows**: {one['rows_out']:,}, not {right:,}."
