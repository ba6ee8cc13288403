"""A table's archive: a table of its own in the same catalog, with the same field ids, so that data
files are copied as they are.

`CREATE TABLE` gives columns new ids, in every client and server. What a staged creation commits is
not asked for them: the schema goes in as an update, as it is.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Any

import requests
from firnline_domain.errors import CatalogUnreachable, TaskRefused
from firnline_domain.identity import TableName
from firnline_domain.records.archive_marks import ARCHIVE_OF
from pyiceberg.exceptions import (
    CommitFailedException,
    NoSuchNamespaceError,
    RESTError,
    TableAlreadyExistsError,
)
from pyiceberg.partitioning import PartitionSpec
from pyiceberg.table import Table
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.sorting import UNSORTED_SORT_ORDER
from pyiceberg.table.update import (
    AddPartitionSpecUpdate,
    AddSchemaUpdate,
    AddSortOrderUpdate,
    AssertCreate,
    AssertCurrentSchemaId,
    AssertTableUUID,
    AssignUUIDUpdate,
    SetCurrentSchemaUpdate,
    SetDefaultSortOrderUpdate,
    SetDefaultSpecUpdate,
    SetLocationUpdate,
    SetPropertiesUpdate,
    TableUpdate,
    UpgradeFormatVersionUpdate,
)
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
    TimestampNanoType,
    TimestamptzNanoType,
    UnknownType,
)

from firnline_iceberg.locations import address
from firnline_iceberg.partitions import source_is_dropped
from firnline_iceberg.storage import file_io
from firnline_iceberg.tables import LoadedTable, TableGone, Tables

TRIES = 3
MAPPING = "schema.name-mapping.default"
FORMAT = 2  # of every archive: copies of v3 files may have row ids in them, which it would repeat
_TAKEN_OVER = ("write.parquet.", "write.metadata.metrics.", "write.target-file-size-bytes", MAPPING)
_V3_TYPES = (TimestampNanoType, TimestamptzNanoType, UnknownType, GeometryType, GeographyType)


class NoArchive(TaskRefused):
    """The table cannot have an archive, or that table is not its archive."""


def archive_name(table: TableName, asked: str) -> tuple[str, ...]:
    """Namespace levels and name. `asked`: by the owner, dotted; '' = beside the table."""
    if not asked:
        return (*table.namespace, f"{table.name}_archive")
    found = tuple(asked.split("."))
    return found if len(found) > 1 else (*table.namespace, *found)


def find(tables: Tables, table: LoadedTable, asked: str) -> LoadedTable | None:
    """The archive as it is now; None: there is no table of that name. Raises NoArchive where that
    is another's, RetryLater."""
    *namespace, name = archive_name(table.identity, asked)
    try:
        found = tables.of(table.identity).named(tuple(namespace), name)
    except TableGone:
        return None
    if found.properties.get(ARCHIVE_OF) != table.identity.uuid:
        text = f"{found.identity.dotted} is there, and its property {ARCHIVE_OF} is not "
        raise NoArchive("not_an_archive", f"{text}{table.identity.uuid}: nothing is written to it")
    _refuse_nested(table, found.metadata.location)
    return found


def create(tables: Tables, table: LoadedTable, asked: str, location: str) -> LoadedTable:
    """`location`: of the owner's; '' = the catalog chooses. Raises NoArchive, RetryLater."""
    refuse_unfit(table)
    if location:
        _refuse_nested(table, location)
    name, of = archive_name(table.identity, asked), tables.of(table.identity)
    properties = {"format-version": str(FORMAT), **_properties(table)}
    client: Any = of.client
    try:
        staged = client.create_table_transaction(
            name, table.schema, location or None, properties=properties
        ).table_metadata
        _refuse_nested(table, staged.location)
        io = file_io({}, staged.location)
        found = Table(name, staged, "", io, client, {})
        client.commit_table(found, (AssertCreate(),), tuple(_of_new(table, staged)))
    except (TableAlreadyExistsError, CommitFailedException):
        pass  # somebody was faster: whose it is will be seen
    except NoSuchNamespaceError as error:
        text = f"there is no namespace {'.'.join(name[:-1])} for the archive: make it first"
        raise NoArchive("archive_gone", text) from error
    except (RESTError, requests.RequestException) as error:
        raise CatalogUnreachable(f"cannot make {'.'.join(name)}: {error}") from error
    if (made := find(tables, table, asked)) is None:
        raise NoArchive("archive_gone", f"{'.'.join(name)} went as soon as it was made")
    return made


def _of_new(table: LoadedTable, staged: TableMetadata) -> Iterator[TableUpdate]:
    spec = table.spec(table.metadata.default_spec_id)
    yield AssignUUIDUpdate(uuid=staged.table_uuid)
    yield UpgradeFormatVersionUpdate.model_validate({"format-version": FORMAT})
    yield AddSchemaUpdate.model_validate({"schema": table.schema})
    yield SetCurrentSchemaUpdate.model_validate({"schema-id": -1})
    yield AddPartitionSpecUpdate(spec=spec)
    yield SetDefaultSpecUpdate.model_validate({"spec-id": -1})
    yield AddSortOrderUpdate.model_validate({"sort-order": UNSORTED_SORT_ORDER})
    yield SetDefaultSortOrderUpdate.model_validate({"sort-order-id": -1})
    yield SetLocationUpdate(location=staged.location)
    # it is left alone: by the names of its files is known what is there
    ours = {ARCHIVE_OF: table.identity.uuid, "firnline.enabled": "false"}
    yield SetPropertiesUpdate(updates={**_properties(table), **ours})


def _properties(table: LoadedTable) -> dict[str, str]:
    """Of how files are read, and would be written: none that says where, or what we do."""
    return {name: text for name, text in table.properties.items() if name.startswith(_TAKEN_OVER)}


def _refuse_nested(table: LoadedTable, location: str) -> None:
    """What removes files below one of them would see those of the other."""
    own, other = address(table.metadata.location), address(location)
    if other is None or own is None:
        raise NoArchive("archive_location", f"{location[:200]} is no location of a table")
    if own == other or own.within(other) or other.within(own):
        text = f"the archive at {location} and the table at {table.metadata.location} overlap"
        raise NoArchive("archive_location", text)


def refuse_unfit(table: LoadedTable) -> None:
    """Raises NoArchive for what a v2 table cannot hold, and for partitions whose values have no
    sure text."""
    for field in table.schema.fields:
        _refuse_field(field)
    for spec in table.metadata.partition_specs:
        for one in spec.fields:
            dropped = source_is_dropped(table.schema, one)
            if dropped or isinstance(one.transform, UnknownTransform):
                raise NoArchive("archive_unfit", f"partition field {one.name} is not understood")
            source = table.schema.find_type(one.source_id)
            floats = isinstance(source, FloatType | DoubleType)
            if floats and isinstance(one.transform, IdentityTransform):
                raise NoArchive("archive_unfit", f"partition field {one.name} is a float")


def _refuse_field(field: NestedField) -> None:
    if isinstance(field.field_type, _V3_TYPES) or field.initial_default is not None:
        text = f"column {field.name} ({field.field_type}) needs format version 3, and archives have"
        raise NoArchive("archive_unfit", f"{text} {FORMAT}")
    for inner in _members(field.field_type):
        _refuse_field(inner)


def _members(kind: IcebergType) -> tuple[NestedField, ...]:
    if isinstance(kind, StructType):
        return kind.fields
    if isinstance(kind, ListType):
        return (kind.element_field,)
    return (kind.key_field, kind.value_field) if isinstance(kind, MapType) else ()


def synced(
    tables: Tables, table: LoadedTable, archive: LoadedTable, spec_ids: Collection[int]
) -> LoadedTable:
    """The archive with the table's schema and name mapping, and these of its specs: columns that
    came since are there, under the table's ids. Raises NoArchive, RetryLater."""
    refuse_unfit(table)
    for _ in range(TRIES):
        updates = [*_missing(table, archive, spec_ids)]
        if not updates:
            return archive
        uuid = {"type": "assert-table-uuid", "uuid": archive.identity.uuid}
        schema = {
            "type": "assert-current-schema-id",
            "current-schema-id": archive.metadata.current_schema_id,
        }
        asserts = (
            AssertTableUUID.model_validate(uuid),
            AssertCurrentSchemaId.model_validate(schema),
        )
        tables.of(archive.identity).commit(archive.identity, asserts, tuple(updates))
        archive = tables.of(archive.identity).load(archive.identity)
    raise CatalogUnreachable(f"the schema of {archive.identity.dotted} changes all the time")


def _missing(
    table: LoadedTable, archive: LoadedTable, spec_ids: Collection[int]
) -> Iterator[TableUpdate]:
    if archive.schema.as_struct() != table.schema.as_struct():
        yield AddSchemaUpdate.model_validate({"schema": table.schema})
        yield SetCurrentSchemaUpdate.model_validate({"schema-id": -1})
    known = spec_map(table, archive)
    for spec_id in sorted({*spec_ids} - known.keys()):
        yield AddPartitionSpecUpdate(spec=table.spec(spec_id))
    mapping = table.properties.get(MAPPING)
    if mapping is not None and archive.properties.get(MAPPING) != mapping:
        yield SetPropertiesUpdate(updates={MAPPING: mapping})


def spec_map(table: LoadedTable, archive: LoadedTable) -> dict[int, int]:
    """Of the table's partition specs to those of the archive that are the same."""
    there = {_spec_key(one): one.spec_id for one in archive.metadata.partition_specs}
    own = ((one.spec_id, there.get(_spec_key(one))) for one in table.metadata.partition_specs)
    return {spec_id: found for spec_id, found in own if found is not None}


def _spec_key(spec: PartitionSpec) -> tuple[tuple[int, int, str, str], ...]:
    return tuple((one.source_id, one.field_id, str(one.transform), one.name) for one in spec.fields)
