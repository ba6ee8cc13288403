"""Field ids of manifest lists and manifests (spec, "Manifests"), with the names used here.

Names in the files changed: `added_data_files_count` became `added_files_count`, for one.
"""

from __future__ import annotations

from firnline_iceberg.metadata.avro_reader import AvroFields

PARTITION = "partition:"  # no Avro name has a colon, so no column can be called that

LIST = AvroFields(
    {
        500: "path",
        501: "length",
        502: "spec_id",
        503: "added_snapshot_id",
        504: "added_files",
        505: "existing_files",
        506: "deleted_files",
        507: "partitions",
        515: "sequence_number",
        516: "min_sequence_number",
        517: "content",
        519: "key_metadata",
        520: "first_row_id",
    }
)
LIST_NAMES = AvroFields({500: "path", 515: "sequence_number"})
LIST_PATHS = AvroFields({500: "path"})
_FILE = {
    100: "path",
    101: "format",
    102: "partition",
    103: "records",
    104: "bytes",
    131: "key_metadata",
    134: "content",
    135: "equality_ids",
    140: "sort_order_id",
    142: "first_row_id",
    143: "referenced_data_file",
    144: "content_offset",
    145: "content_size",
}
_BOUNDS = {125: "lower", 128: "upper"}
_SIZES = {108: "column_sizes", 132: "split_offsets"}
_STATS = {109: "value_counts", 110: "null_counts", 137: "nan_counts"}


def _entry_fields(file_fields: dict[int, str], most: bool = True) -> AvroFields:
    return AvroFields(
        {0: "status", 1: "snapshot_id", 2: "file", 3: "sequence_number", 4: "file_sequence_number"},
        {2: AvroFields(file_fields, {102: AvroFields(every=PARTITION)})},
        most=most,
    )


ENTRY = _entry_fields(_FILE, most=False)  # statistics are left out
ENTRY_PATHS = AvroFields({0: "status", 2: "file"}, {2: AvroFields({100: "path"})})
ENTRY_OF_DIGEST = AvroFields(
    {0: "status", 2: "file", 3: "sequence_number"},
    {2: AvroFields({100: "path", 102: "partition"}, {102: AvroFields(every=PARTITION)})},
)
ENTRY_WITH_BOUNDS = _entry_fields(_FILE | _BOUNDS)
ENTRY_WHOLE = _entry_fields(_FILE | _BOUNDS | _STATS | _SIZES)
ENTRY_WITH_STATS = _entry_fields(_FILE | _BOUNDS | _STATS)
