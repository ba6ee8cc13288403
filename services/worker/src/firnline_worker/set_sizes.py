"""How large delete sets will be, told from manifests before any file is opened."""

from __future__ import annotations

from collections.abc import Iterable

from firnline_iceberg.files import DeleteFileEntry
from firnline_iceberg.tables import LoadedTable
from pyiceberg.types import BinaryType, DecimalType, IcebergType, StringType, UUIDType

from firnline_worker.columns import find_type

_SLOTS = 1.5  # a key, `firnline_deletes.slots`
_SLOT_BYTES = 12  # index value and code
_WIDTHS: dict[type, int] = {StringType: 54, BinaryType: 54, UUIDType: 16, DecimalType: 16}


def set_bytes(table: LoadedTable, deletes: Iterable[DeleteFileEntry]) -> int:
    """Upper estimate of the set of these equality deletes: every record a distinct key. Texts
    count as Iceberg estimates them, 54 bytes, or as many as they take in the file if that is more.
    """
    kinds: dict[tuple[int, ...], list[IcebergType | None]] = {}
    total = 0
    for delete in deletes:
        ids = delete.equality_ids
        if ids not in kinds:  # looks through every schema: once a set, not once a file
            kinds[ids] = [find_type(table, number) for number in ids]
        total += _key_bytes(kinds[ids], delete) * delete.records
    return total


def _key_bytes(kinds: list[IcebergType | None], delete: DeleteFileEntry) -> int:
    width = sum(_WIDTHS.get(type(kind), 8) for kind in kinds)
    stored = delete.bytes // max(1, delete.records)
    has_text = any(isinstance(kind, StringType | BinaryType) for kind in kinds)
    return int(_SLOTS * (_SLOT_BYTES + (max(width, stored) if has_text else width)))
