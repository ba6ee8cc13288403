"""What the kernel will not answer, as values: a refusal hands the table to Iceberg's own action."""

from __future__ import annotations

from typing import Literal, get_args

Reason = Literal[
    "no_field_ids",
    "duplicate_field_ids",
    "type_differs",
    "missing_required",
    "missing_partition_column",
    "row_ids_unknown",
    "float_key",
    "key_type",
    "key_in_collection",
    "delete_key_missing",
    "another_spelling",
    "unreadable_file",
    "unreadable_vector",
    "codec",
]

SENTENCES: dict[Reason, str] = {
    "no_field_ids": "A file has no field ids and the table no name mapping, or a delete file has "
    "none: what Java then guesses by position is its own affair.",
    "duplicate_field_ids": "Two columns of one file claim one id: no projection is right.",
    "type_differs": "The file's type is neither the table's nor one that promotes to it.",
    "missing_required": "A required column has no value in a file and no default to give it one.",
    "missing_partition_column": "A file lacks the column of an identity partition whose value "
    "lies outside what Python can hold (dates before year 1 or after 9999).",
    "row_ids_unknown": "Rows of a table upgraded to v3 have no row ids before its next commit.",
    "float_key": "NaN and -0.0 compare differently in Java and Arrow; the spec forbids such keys.",
    "key_type": "The column's type cannot be an equality key.",
    "key_in_collection": "An equality id inside a list or map; the spec allows structs only.",
    "delete_key_missing": "An equality-delete file lacks one of its own key columns.",
    "another_spelling": "A position-delete file names a data file otherwise than its manifest "
    "(`s3a://`, not `s3://`): readers compare the text, and see those rows.",
    "unreadable_file": "Arrow cannot open or decode a file (encrypted, exotic encoding ...).",
    "unreadable_vector": "A deletion vector whose magic, length, checksum or count is wrong.",
    "codec": "A write.parquet.compression-codec that Arrow does not write.",
}
"""Every reason of the kernel, said in a sentence."""

assert set(SENTENCES) == set(get_args(Reason))


class Refused(Exception):
    """The kernel does not serve this input; `reason` says why, `detail` names the place."""

    def __init__(self, reason: Reason, detail: str) -> None:
        super().__init__(f"{reason}: {detail}")
        self.reason: Reason = reason
        self.detail = detail

    def __reduce__(self) -> tuple[type[Refused], tuple[Reason, str]]:
        """Pickled by its two parts: it crosses from a Spark task to the driver."""
        return (Refused, (self.reason, self.detail))
