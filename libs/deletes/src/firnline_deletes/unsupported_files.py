"""Reasons why the kernel does not serve an input: the table then goes to Iceberg's own action."""

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
    "no_field_ids": "A data file has no field ids and the table has no name mapping, or a delete "
    "file has no field ids.",
    "duplicate_field_ids": "Two columns of a file have the same field id.",
    "type_differs": "A file's column type is neither the table's type nor one that can be "
    "promoted to it.",
    "missing_required": "A required column has no value in a file and no default.",
    "missing_partition_column": "A file lacks the column of an identity partition, and the value "
    "is a date before year 1 or after 9999.",
    "row_ids_unknown": "The table was upgraded to v3, and its rows have no row ids before the "
    "next commit.",
    "float_key": "An equality delete has a float or double key, which the specification forbids. "
    "Java and Arrow compare NaN and -0.0 differently.",
    "key_type": "An equality delete has a key of a type that cannot be a key.",
    "key_in_collection": "An equality delete has a key inside a list or map. The specification "
    "allows only structs.",
    "delete_key_missing": "An equality-delete file lacks one of its key columns.",
    "another_spelling": "A position-delete file spells the path of a data file differently than "
    "the manifest (`s3a://` instead of `s3://`). Readers compare the text and show these rows.",
    "unreadable_file": "Arrow cannot open or decode a file.",
    "unreadable_vector": "A deletion vector has a wrong magic number, length, checksum or count.",
    "codec": "Arrow cannot write the codec of `write.parquet.compression-codec`.",
}
"""Every reason of the kernel, said in a sentence."""

assert set(SENTENCES) == set(get_args(Reason))


class UnsupportedFile(Exception):
    """The kernel does not serve this input; `reason` says why, `detail` names the place."""

    def __init__(self, reason: Reason, detail: str) -> None:
        super().__init__(f"{reason}: {detail}")
        self.reason: Reason = reason
        self.detail = detail

    def __reduce__(self) -> tuple[type[UnsupportedFile], tuple[Reason, str]]:
        """Pickle by the two parts: the error crosses from a Spark task to the driver."""
        return (UnsupportedFile, (self.reason, self.detail))
