"""What is rewritten natively; the rest is handed to Iceberg's own action, with a reason code.

`HANDED_OVER`: the codes for that, each in a sentence. `REFUSED`: why nobody did it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Literal, get_args

from firnline_deletes.refusals import SENTENCES
from firnline_iceberg.files import FileEntry
from firnline_iceberg.partitions import source_is_dropped
from firnline_iceberg.tables import LoadedTable
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

from firnline_worker.columns import find_type, name_mapping
from firnline_worker.planning import Plan

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
    "format_version_1": "A v1 table has neither sequence numbers nor deletes.",
    "encrypted": "Arrow has no access to the table's key manager.",
    "write_format": "The table wants its data in another format than Parquet.",
    "avro_file": "A data or delete file is Avro.",
    "orc_file": "A data or delete file is ORC.",
    "type_unknown": "A member of a struct, list or map is of unknown type, which is not stored.",
    "type_geometry": "A geometry column; its bounds are of a kind of their own.",
    "type_geography": "A geography column; its bounds are of a kind of their own.",
    "unknown_transform": "A partition transform that PyIceberg does not know.",
    "float_partition": "A partition by a float: NaN has no JSON form, -0.0 no text of its own.",
    "partition_source_dropped": "The column of a partition field was dropped: Iceberg's Java API "
    "then reads every value of that field as null.",
    "name_mapping": "schema.name-mapping.default cannot be read.",
    "row_ids_unknown": SENTENCES["row_ids_unknown"],
    "outside_locations": "The table's location provider puts files outside the table's own "
    "locations, where nothing of Firnline's is committed or removed.",
}

HANDED_OVER: dict[str, str] = {
    str(code): sentence for code, sentence in (*SENTENCES.items(), *_UNSUPPORTED.items())
}

REFUSED: dict[str, str] = {
    "table_gone": "The table does not exist any more, or its name is another table's.",
    "unknown_catalog": "No connection of that name is in this worker's settings.",
    "unknown_prefix": "The catalog has led its client to another prefix of its paths than the "
    "table's.",
    "ref_gone": "The table has no such branch or tag.",
    "snapshot_gone": "The snapshot was expired.",
    "snapshots_hidden": "The catalog did not tell of all snapshots that the table's metadata file "
    "has: nothing is expired.",
    "metadata_of_another": "The metadata file that the catalog names is another table's.",
    "unclear_path": "Iceberg's readers would look for a path of the table in different places: it "
    "has `#`, `?`, `;`, a backslash, `//`, `..` or a control character. Move the file.",
    "link_in_location": "The table's location, or its metadata, lies behind a link of the local "
    "file system, so the files may be another table's. Set a location without links.",
    "metadata_file_gone": "A manifest was expired while it was read; worth another try.",
    "format_version_4": "No program of Firnline reads format version 4 yet: nothing is ordered for "
    "the table, and nothing done to it.",
    "metadata_unreadable": "PyIceberg cannot read the table's metadata: variant columns, defaults "
    "of structs, lists and maps, or what is no metadata. Or a manifest contradicts its own "
    "schema, as Iceberg 1.12.0 writes those of partitions by a fixed column.",
    "unsafe_property": "A property of the table would make Java load a class of its owner's choice "
    "(write.location-provider.impl; FIRNLINE_LOCATION_PROVIDERS allows one), or is a setting of "
    "Hadoop's (fs.*, dfs.*, hadoop.*, ipc.*, parquet.crypto.*, parquet.encryption.*), which "
    "Iceberg's writer would obey. Unset it.",
    "java_failed": "Iceberg's Java library or Spark could not do it. The message is theirs, in one "
    "line; the worker's log has the rest. A table that was handed over says first why it was.",
    "lost_race": "Another commit came before that of Iceberg's own action; worth another try.",
    "unusable_property": "Iceberg's Java library throws at a property of the table with every "
    "commit, a writer's or ours. The message says which, and what to write.",
    "deadline_passed": "The planner has taken the partition back.",
    "already_committed": "The order came again after its commit.",
    "trigger_gone": "The snapshot that the order was made at is expired or rolled back: whether it "
    "was carried out cannot be told, and the planner decides anew.",
    "paused": "Somebody paused maintenance (`firnline pause`) while the order waited.",
    "duplicate_files": "A data or delete file is in the table twice. A rewrite removes files by "
    "path, and would lose the rows of the second entry, also in Iceberg's own action.",
    "rows_do_not_add_up": "Rows in, masked and out do not balance, or are not the manifests'.",
    "keys_do_not_add_up": "The checksums of the keys in, masked and out do not balance.",
}

# Of expiry, archive, statistics, sort and the other actions, and of a task that came to no end.
ACTION_REFUSED: dict[str, str] = {
    "clocks_differ": "Clocks of services or storage differ too much to tell what is old.",
    "java_failed": "Iceberg's own code failed at the table, with its text.",
    "lost_race": "Another commit came first, and Iceberg's own action does not try again.",
    "archive_changed": "The archive is another table than before, or was changed meanwhile.",
    "archive_unfit": "The archive cannot take the files: its schema, its spec or its encryption.",
    "branch_age_limit": "A branch that `firnline.expire.branches` removes has a running task.",
    "disabled": "`firnline.enabled=false` was set while the order waited.",
    "listed_twice": "A file is in the table twice: it cannot be moved.",
    "namespace_gone": "The namespace does not exist any more.",
    "no_manifest_list": "A snapshot has no manifest list, as those before Iceberg 0.9.",
    "no_primitive_column": "No column has a type that statistics are computed of.",
    "no_sort_order": "`firnline.sort` asks for the table's sort order, and it has none.",
    "no_statistics": "Iceberg computed none.",
    "no_time_column": "No partition or column says how old rows are.",
    "open_branch": "A branch is ahead of the table, for a fast-forward: left alone until then.",
    "unpublished_wap": "A staged commit (`wap.id`) is not published: left alone until then.",
    "remote_signing": "The catalog signs each request to the storage, which we do not support.",
    "sort_unsupported": "Files that only Iceberg's own action can rewrite are not sorted.",
    "unsortable_column": "`firnline.sort` names no column, or one whose type has no order.",
    "tag_exists": "The tag that was to be made names another snapshot.",
    "too_many_deletes": "Too many equality deletes to compare rows through Iceberg's own reader.",
    "unknown_column": "A property names a column that the table does not have.",
    "unreadable_condition": "The condition of a purge or a retention cannot be read.",
    "unreadable_file": "A file is not there, or cannot be read.",
    "unknown_action": "An action that this worker does not know: upgrade it.",
    "out_of_memory": "The task ran out of memory; its partition goes to the heavy lane.",
    "result_not_sent": "The result is larger than the topic takes.",
    "unreachable": "Catalog or storage did not answer.",
    "worker_error": "The worker failed at it: an error of ours, with its text.",
    "nothing_to_do": "There was nothing left to do when the worker looked.",
    "deadline": "No answer came before the deadline: the worker was lost, or is slow.",
}

assert set(_UNSUPPORTED) == set(get_args(Unsupported))


_UNSUPPORTED_TYPES: dict[type, Unsupported] = {
    UnknownType: "type_unknown",
    GeometryType: "type_geometry",
    GeographyType: "type_geography",
}


def reasons(table: LoadedTable, plan: Plan) -> Iterator[Unsupported]:
    """Reason codes for which this plan is not served natively; none = it is."""
    if table.format_version == 1:
        yield "format_version_1"
    if table.form.encrypted:
        yield "encrypted"
    if table.properties.get("write.format.default", "parquet").lower() != "parquet":
        yield "write_format"
    if not _mapping_is_read(table):
        yield "name_mapping"
    stored = (f for f in table.schema.fields if not isinstance(f.field_type, UnknownType))
    yield from _of_types(stored)
    for spec_id in sorted({file.spec_id for file in plan.taken}):
        yield from _of_spec(table, table.spec(spec_id))
    for file in (*plan.taken, *plan.deletes):
        yield from _of_file(file)
    if table.format_version >= 3 and any(file.first_row_id is None for file in plan.inputs):
        yield "row_ids_unknown"


def _mapping_is_read(table: LoadedTable) -> bool:
    try:
        name_mapping(table)
    except ValueError:
        return False
    return True


def _of_file(file: FileEntry) -> Iterator[Unsupported]:
    if file.encrypted:
        yield "encrypted"
    if file.format == "AVRO":
        yield "avro_file"
    if file.format == "ORC":
        yield "orc_file"


def _of_types(fields: Iterable[NestedField]) -> Iterator[Unsupported]:
    for field in fields:
        yield from _of_type(field.field_type)


def _of_type(kind: IcebergType) -> Iterator[Unsupported]:
    if isinstance(kind, StructType):
        yield from _of_types(kind.fields)
    elif isinstance(kind, ListType):
        yield from _of_type(kind.element_type)
    elif isinstance(kind, MapType):
        yield from _of_type(kind.key_type)
        yield from _of_type(kind.value_type)
    elif unserved := _UNSUPPORTED_TYPES.get(type(kind)):
        yield unserved


def _of_spec(table: LoadedTable, spec: PartitionSpec) -> Iterator[Unsupported]:
    for field in spec.fields:
        if isinstance(field.transform, UnknownTransform):
            yield "unknown_transform"
        if source_is_dropped(table.schema, field):
            yield "partition_source_dropped"
        source = find_type(table, field.source_id)
        if isinstance(field.transform, IdentityTransform) and isinstance(
            source, FloatType | DoubleType
        ):
            yield "float_partition"  # NaN has no JSON form, -0.0 no text of its own
