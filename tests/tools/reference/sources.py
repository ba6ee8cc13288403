"""The tables of catalogs' databases that the listener knows."""

from __future__ import annotations

from firnline_listener.sources.pointers import POINTERS

from tests.tools.reference.markdown import table


def list_databases() -> str:
    columns = {one.product: f"`{one.catalog}`" if one.catalog else "none" for one in POINTERS}
    rows = [f"{one.product} | `{one.relation}` | {columns[one.product]}" for one in POINTERS]
    return table("catalog | table | column of `only`", rows)
