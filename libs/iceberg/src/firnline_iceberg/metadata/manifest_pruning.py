"""Manifests that cannot hold a file of some partitions, told by the manifest list's bounds.

What is missing, or of a type whose order is not plain, means "may hold".
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from datetime import date
from typing import Any

from firnline_domain.identity import Scope
from pyiceberg.types import DateType, IcebergType, IntegerType, LongType, StringType

from firnline_iceberg.metadata.column_bounds import is_below, read_range
from firnline_iceberg.metadata.manifest_reader import FieldSummary, ManifestFile

_EPOCH = date(1970, 1, 1)


def may_hold(
    manifest: ManifestFile, scopes: Iterable[Scope], types: Sequence[IcebergType | None]
) -> bool:
    """Return True if one of the scopes may have a file in the manifest. `types`: of its spec's
    fields."""
    return any(
        scope.spec_id == manifest.spec_id and _may_hold(manifest, scope, types) for scope in scopes
    )


def _may_hold(manifest: ManifestFile, scope: Scope, types: Sequence[IcebergType | None]) -> bool:
    """Return False if the manifest's partition bounds exclude a value of the partition."""
    values = json.loads(scope.partition)
    if not len(values) == len(manifest.partitions) == len(types):
        return True
    fields = zip(values, manifest.partitions, types, strict=True)
    return not any(_excludes_value(value, summary, kind) for value, summary, kind in fields)


def _excludes_value(value: Any, summary: FieldSummary, kind: IcebergType | None) -> bool:
    if value is None:
        return summary.contains_null is False
    if (read := _VALUES.get(type(kind))) is None:
        return False
    found = read_range(kind, summary.lower, summary.upper)
    try:
        own = read(value)
    except (ValueError, TypeError, OverflowError):
        return False
    return found is not None and bool(own < found[0] or is_below(found[1], own))


def _as_it_is(kind: type) -> Callable[[Any], Any]:
    def write_plain(value: Any) -> Any:
        if type(value) is not kind:
            raise TypeError(f"{value!r} is no {kind.__name__}")
        return value

    return write_plain


def _days_of(value: Any) -> int:
    return (date.fromisoformat(value) - _EPOCH).days


_VALUES: dict[type, Callable[[Any], Any]] = {
    IntegerType: _as_it_is(int),
    LongType: _as_it_is(int),
    DateType: _days_of,
    StringType: _as_it_is(str),
}
