"""The place of a table in answers. A catalog is part of a table's name only if there are several
catalogs."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from firnline_domain.base.values import to_plain
from firnline_domain.identity import TableName


def place_json(table: TableName) -> dict[str, Any]:
    """Return the table that an answer is about: its display name and its full identity."""
    return {
        "table": table.dotted_name,
        "catalog": table.catalog_path,
        "table_key": table.key,
        "identity": to_plain(table),
    }


def with_catalogs(answer: Any, catalogs: Collection[str]) -> Any:
    """Return the answer with `lake:` before each table's name, at any depth, if there are several
    catalogs."""
    if len(catalogs) < 2:
        return answer
    if isinstance(answer, list):
        return [with_catalogs(one, catalogs) for one in answer]
    if not isinstance(answer, dict):
        return answer
    told = {name: with_catalogs(one, catalogs) for name, one in answer.items()}
    if isinstance(told.get("table"), str) and told["table"] and told.get("catalog"):
        told["table"] = f"{told['catalog']}:{told['table']}"
    return told
