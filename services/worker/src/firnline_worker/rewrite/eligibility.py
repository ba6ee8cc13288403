"""Decides what is rewritten natively; the rest is handed to Iceberg's own action, with a reason
code. `HANDED_OVER`: the codes for that, each in a sentence. `REFUSED`: why no rewrite happened."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Literal, get_args

from firnline_deletes.unsupported_files import SENTENCES
from firnline_domain.records.parts.conflict_reasons import ConflictReason
from firnline_iceberg.metadata.entries import FileEntry
from firnline_iceberg.metadata.partition_text import is_source_dropped
from firnline_iceberg.table.loaded_table import LoadedTable
from pyiceberg.partitioning import PartitionSpec
from pyiceberg.transforms import IdentityTransform, UnknownTransform
from pyiceberg.types import (
    DoubleType,
    FloatType,
    GeographyType,
    GeometryType,
    IcebergType,
    ListType,
    MapType,
    NestedField,
    StructType,
    UnknownType,
)

from firnline_worker.plan.columns import find_type, name_mapping
from firnline_worker.plan.planning import Plan

Unsupported = Literal[
    "format_version_1",
    "encrypted",
    "write_format",
    "avro_file",
    "orc_file",
    "type_unknown",
    "type_geometry",
    "type_geography",
    "unknown_transform",
    "float_partition",
    "partition_source_dropped",
    "name_mapping",
    "row_ids_unknown",
    "outside_locations",
]
"""What is seen in metadata, before any file is opened."""

_UNSUPPORTED: dict[Unsupported, str] = {
    "format_version_1": "Format v1 has no sequence numbers.",
    "encrypted": "The table is encrypted, and Arrow has no access to its key manager.",
    "write_format": "`write.format.default` is not Parquet.",
    "avro_file": "A data or delete file is Avro.",
    "orc_file": "A data or delete file is ORC.",
    "type_unknown": "A member of a struct, list or map has the type `unknown`.",
    "type_geometry": "The table has a geometry column.",
    "type_geography": "The table has a geography column.",
    "unknown_transform": "PyIceberg does not know a partition transform of the table.",
    "float_partition": "The table is partitioned by a float or double.",
    "partition_source_dropped": "The column of a partition field was dropped. Iceberg's Java API "
    "then reads every value of that field as null.",
    "name_mapping": "`schema.name-mapping.default` cannot be parsed.",
    "row_ids_unknown": SENTENCES["row_ids_unknown"],
    "outside_locations": "The table's location provider writes files outside the table's own "
    "locations, where Firnline commits and removes nothing.",
}

HANDED_OVER: dict[str, str] = {
    str(code): sentence for code, sentence in (*SENTENCES.items(), *_UNSUPPORTED.items())
}

REFUSED: dict[str, str] = {
    "table_gone": "The table does not exist any more, or another table has its name.",
    "unknown_catalog": "The worker's `firnline.toml` has no catalog of that name. Add "
    "`[catalogs.NAME]`.",
    "unknown_prefix": "The catalog returned another prefix than the table's. Check the warehouse "
    "of the connection.",
    "ref_gone": "The table has no such branch or tag.",
    "snapshot_gone": "The snapshot was expired.",
    "snapshots_hidden": "The catalog returned fewer snapshots than the table's metadata file "
    "contains. Nothing is expired.",
    "metadata_of_another": "The catalog returned the metadata file of another table.",
    "unclear_path": "A path of the table contains `#`, `?`, `;`, a backslash, `//`, `..` or a "
    "control character, which Iceberg's readers interpret differently. Move the file.",
    "link_in_location": "The table's location or metadata is behind a symbolic link, so the files "
    "may belong to another table. Set a location without links.",
    "metadata_file_gone": "A manifest was removed while it was read. The task is retried.",
    "format_version_4": "The table has format version 4, which Firnline does not support. It does "
    "nothing to the table.",
    "metadata_unreadable": "PyIceberg cannot read the table's metadata (variant columns, defaults "
    "of structs, lists and maps, or a damaged file), or a manifest contradicts its own schema.",
    "unsafe_property": "A table property would load a Java class (`write.location-provider.impl`) "
    "or is a Hadoop setting (`fs.*`, `dfs.*`, `hadoop.*`, `ipc.*`, `parquet.crypto.*`, "
    "`parquet.encryption.*`). Unset it, or allow the class with `FIRNLINE_LOCATION_PROVIDERS`.",
    "java_failed": "Iceberg's Java library or Spark failed. The message contains its error, and "
    "the worker's log the stack trace. For a rewrite by Iceberg's own action the message begins "
    "with the reason for that.",
    "lost_race": "Another commit came before that of Iceberg's own action. The task is retried.",
    "unusable_property": "A table property makes every commit fail in Iceberg's Java library. The "
    "message names the property and valid values.",
    "deadline_passed": "The task started after its deadline. The planner schedules the partition "
    "again.",
    "already_committed": "Kafka delivered the task again after its commit.",
    "trigger_gone": "The snapshot at which the task was scheduled was expired or rolled back, so "
    "it is unknown whether the task was done. The planner decides again.",
    "streaming_readers": ConflictReason.STREAMING_READERS.meaning,
    "paused": "A person paused maintenance while the task waited. `firnline resume` ends the "
    "pause.",
    "duplicate_files": "A data or delete file is in the table twice. A rewrite removes files by "
    "path and would lose the rows of the second entry. Delete it and append it once, or roll "
    "back, then run `firnline unpark TABLE`.",
    "rows_do_not_add_up": "Row counts of inputs, deleted rows and outputs do not match, or differ "
    "from the manifests.",
    "keys_do_not_add_up": "Key checksums of inputs, deleted rows and outputs do not match.",
}

# Of expiry, archive, statistics, sort and the other actions, and of a task that came to no end.
ACTION_REFUSED: dict[str, str] = {
    "clocks_differ": "The clocks of worker, catalog and storage differ by more than five minutes, "
    "or only one is known. The message contains each clock. Correct the wrong one.",
    "java_failed": "Iceberg's Java library or Spark failed. The message contains its error, and "
    "the worker's log the stack trace.",
    "lost_race": "Another commit came before that of Iceberg's own action. The task is retried.",
    "archive_changed": "The archive table was replaced or changed while files were moved.",
    "archive_gone": "The archive table does not exist any more. Unset `firnline.archive-round` to "
    "start with a new one.",
    "archive_location": "The archive's location is not permitted (`firnline.archives` of the "
    "catalog's connection), or is above or below the table's.",
    "archive_namespace": "The archive's namespace is not permitted (`firnline.archives` of the "
    "catalog's connection).",
    "archive_undone": "A rollback made archived rows appear in the table again. Delete them in the "
    "table or in the archive.",
    "archived_instead": "`firnline.archive.after-hours` is set, so old rows are archived, not "
    "removed.",
    "no_archive_age": "`firnline.archive.after-hours` is not set.",
    "no_tags": "`firnline.tags.create` is not set.",
    "no_ttl": "`firnline.partitions.ttl-hours` is not set.",
    "not_an_archive": "Firnline did not create the table of that name as this table's archive. Set "
    "`firnline.archive.table` to another name.",
    "not_wanted": "`firnline.format-version=3` is not set any more.",
    "unreadable_tags": "`firnline.tags.create` cannot be parsed.",
    "writer_not_ready": "A writer that may not support format v3 committed recently. Upgrade it, "
    "or set `firnline.format-version.writer-hours=0`.",
    "archive_unfit": "The archive cannot contain the table's files, because of its schema, "
    "partition spec, format version or encryption.",
    "branch_age_limit": "A task runs on a branch that `firnline.expire.branches` would remove. "
    "The expiry is retried.",
    "disabled": "`firnline.enabled=false` was set while the task waited.",
    "dotted_column": "Iceberg's action cannot read a column with a dot in its name. Remove it from "
    "`firnline.statistics`.",
    "listed_twice": "A file is in the table twice and cannot be moved.",
    "namespace_gone": "The namespace does not exist any more.",
    "no_manifest_list": "A snapshot has no manifest list (Iceberg before 0.9).",
    "no_primitive_column": "No column has a type for which statistics can be computed.",
    "no_sort_order": "`firnline.sort=order`, but the table has no sort order. Set one, or name "
    "columns.",
    "no_statistics": "Iceberg's action computed no statistics.",
    "no_time_column": "No partition or column gives the age of rows. Set "
    "`firnline.partitions.column`.",
    "open_branch": "A branch with recent commits is ahead of `main`. The table waits for its "
    "fast-forward, at most `firnline.rewrite.hold-off-ms`.",
    "unpublished_wap": "A recent staged commit (`wap.id`) is not published yet. The table waits, "
    "at most `firnline.rewrite.hold-off-ms`.",
    "remote_signing": "The catalog requires remote signing of storage requests, which Firnline "
    "does not support. Use vended or own credentials.",
    "sort_unsupported": "Only Iceberg's own action can rewrite these files. Firnline does not "
    "sort them.",
    "unsortable_column": "`firnline.sort` names a missing column or one whose type has no order.",
    "tag_exists": "The tag already exists and names another snapshot. Other tags were created.",
    "too_many_deletes": "There are too many equality deletes to verify the rows with Iceberg's "
    "own reader.",
    "unknown_column": "A table property names a column that the table does not have.",
    "unreadable_condition": "The condition cannot be parsed.",
    "unreadable_file": "A file does not exist or cannot be read.",
    "unknown_action": "This worker does not know the action. Upgrade it.",
    "out_of_memory": "The task ran out of memory. The next attempt goes to workers with more "
    "memory (heavy queue).",
    "result_not_sent": "The result is larger than its topic accepts.",
    "unreachable": "The catalog or storage did not respond. The task is retried.",
    "worker_error": "The worker failed because of an internal error. The message contains it.",
    "nothing_to_do": "The worker found nothing to do.",
    "deadline": "No result arrived before the deadline: the worker died or is too slow.",
}

assert set(_UNSUPPORTED) == set(get_args(Unsupported))


_UNSUPPORTED_TYPES: dict[type, Unsupported] = {
    UnknownType: "type_unknown",
    GeometryType: "type_geometry",
    GeographyType: "type_geography",
}


def unsupported_reasons(table: LoadedTable, plan: Plan) -> Iterator[Unsupported]:
    """Yield reason codes for which this plan is not rewritten natively; none = it is."""
    if table.format_version == 1:
        yield "format_version_1"
    if table.form.encrypted:
        yield "encrypted"
    if table.properties.get("write.format.default", "parquet").lower() != "parquet":
        yield "write_format"
    if not _mapping_is_read(table):
        yield "name_mapping"
    stored = (f for f in table.schema.fields if not isinstance(f.field_type, UnknownType))
    yield from _field_obstacles(stored)
    for spec_id in sorted({file.spec_id for file in plan.files_to_read}):
        yield from _spec_obstacles(table, table.spec(spec_id))
    for file in (*plan.files_to_read, *plan.deletes):
        yield from _file_obstacles(file)
    if table.format_version >= 3 and any(file.first_row_id is None for file in plan.inputs):
        yield "row_ids_unknown"


def _mapping_is_read(table: LoadedTable) -> bool:
    try:
        name_mapping(table)
    except ValueError:
        return False
    return True


def _file_obstacles(file: FileEntry) -> Iterator[Unsupported]:
    """Yield why a file cannot be rewritten: encryption, or a format other than Parquet."""
    if file.encrypted:
        yield "encrypted"
    if file.format == "AVRO":
        yield "avro_file"
    if file.format == "ORC":
        yield "orc_file"


def _field_obstacles(fields: Iterable[NestedField]) -> Iterator[Unsupported]:
    """Yield the types of the fields, at any depth, that cannot be rewritten."""
    for field in fields:
        yield from _type_obstacles(field.field_type)


def _type_obstacles(kind: IcebergType) -> Iterator[Unsupported]:
    """Yield the types in a type, at any depth, that cannot be rewritten."""
    if isinstance(kind, StructType):
        yield from _field_obstacles(kind.fields)
    elif isinstance(kind, ListType):
        yield from _type_obstacles(kind.element_type)
    elif isinstance(kind, MapType):
        yield from _type_obstacles(kind.key_type)
        yield from _type_obstacles(kind.value_type)
    elif unserved := _UNSUPPORTED_TYPES.get(type(kind)):
        yield unserved


def _spec_obstacles(table: LoadedTable, spec: PartitionSpec) -> Iterator[Unsupported]:
    """Yield why files of a partition spec cannot be rewritten: by their transforms, or by their
    source columns."""
    for field in spec.fields:
        if isinstance(field.transform, UnknownTransform):
            yield "unknown_transform"
        if is_source_dropped(table.schema, field):
            yield "partition_source_dropped"
        source = find_type(table, field.source_id)
        if isinstance(field.transform, IdentityTransform) and isinstance(
            source, FloatType | DoubleType
        ):
            yield "float_partition"  # NaN has no JSON form, -0.0 no text of its own
