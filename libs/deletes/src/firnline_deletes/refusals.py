"""What the kernel will not answer, as values: a refusal hands the table to Iceberg's own action."""

from __future__ import annotations

from typing import Literal

Reason = Literal[
    "no_field_ids",  # a file without PARQUET:field_id needs name mapping (spec "Column Projection")
    "duplicate_field_ids",  # two columns of one file claim one id: no projection is right
    "type_differs",  # the file's type is neither the table's nor one that promotes to it
    "nested_differs",  # ids, names, types or order inside a struct, list or map differ
    "missing_required",  # a required column without a value in the file and no default to give it
    "missing_partition_column",  # identity source absent from the file: its value is metadata only
    "float_key",  # invalid as identifier field; NaN and -0.0 compare differently in Java and Arrow
    "key_type",  # the type cannot be an equality key here (nested, variant, unknown ...)
    "key_in_collection",  # an equality id inside a list or map; the spec allows structs only
    "delete_key_missing",  # an equality-delete file without one of its own key columns
    "unreadable_file",  # Arrow cannot open or decode the file (encrypted, exotic encoding ...)
    "codec",  # write.parquet.compression-codec that Arrow does not write
]


class Refused(Exception):
    """The kernel does not serve this input; `reason` says why, `detail` names the place."""

    def __init__(self, reason: Reason, detail: str) -> None:
        super().__init__(f"{reason}: {detail}")
        self.reason: Reason = reason
        self.detail = detail

    def __reduce__(self) -> tuple[type[Refused], tuple[Reason, str]]:
        """Pickled by its two parts: it crosses from a Spark task to the driver."""
        return (Refused, (self.reason, self.detail))
