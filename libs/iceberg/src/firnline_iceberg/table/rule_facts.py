"""Values of a table that an operator's rules ask for: of any property, and of its layout."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any

from firnline_domain.settings.table_rules import MAX_CHARS, PARTITION_FIELDS, SORT_ORDER
from pyiceberg.transforms import VoidTransform

from firnline_iceberg.table.loaded_table import LoadedTable

_PARAMETER = re.compile(r"(\w+)\[(\d+)\]")  # of `bucket[16]`


def rule_facts(table: LoadedTable, names: Iterable[str]) -> dict[str, tuple[str, ...]]:
    """Return the table's values by these names of rules; () for one that it does not have."""
    return {name: tuple(_find_values(table, name)) for name in names}


def _find_values(table: LoadedTable, name: str) -> Iterator[str]:
    metadata = table.metadata
    if name == PARTITION_FIELDS:
        for field in metadata.spec().fields:
            if not isinstance(field.transform, VoidTransform):
                yield _term_text(table, field)
    elif name == SORT_ORDER:
        order = metadata.sort_order_by_id(metadata.default_sort_order_id)
        for one in order.fields if order else ():
            yield f"{_term_text(table, one)} {one.direction.value}"
    elif name in table.properties:
        yield table.properties[name][:MAX_CHARS]


def _term_text(table: LoadedTable, field: Any) -> str:
    """Return a field's column in its transform: `day(at)`, `bucket(16, id)`, `region`."""
    column = table.schema.find_column_name(field.source_id) or f"column {field.source_id}"
    transform = str(field.transform)
    if transform == "identity":
        return column
    if found := _PARAMETER.fullmatch(transform):
        return f"{found[1]}({found[2]}, {column})"
    return f"{transform}({column})"
