"""The tables of catalogs' databases that the listener knows."""

from __future__ import annotations

from firnline_listener.sources.pointers import POINTERS

from tests.tools.reference.markdown import table


def list_databases() -> str:
    rows = [f"{one.product} | `{one.relation}` | `{one.catalog}`" for one in POINTERS]
    return table("catalog | table | column of `only`", rows)
