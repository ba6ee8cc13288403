"""A table's archive: a table of its own in the same catalog, with the same field ids, so that data
files are copied as they are.

`CREATE TABLE` gives columns new ids, in every client and server. What a staged creation commits is
not asked for them: the schema goes in as an update, as it is.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import Any

import requests
from firnline_domain.errors import CatalogUnreachable, TaskRefused
from firnline_domain.identity import TableName
from firnline_domain.records.parts.archive_marks import ARCHIVE_OF, SEAL
from firnline_domain.records.signing import Keyring, Signature, SignatureRefused
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

from firnline_iceberg.connection.properties import ARCHIVES
from firnline_iceberg.metadata.partition_text import is_source_dropped
from firnline_iceberg.outputs.write_ahead_list import UNSIGNED
from firnline_iceberg.storage.file_io import make_file_io
from firnline_iceberg.storage.paths import parse_address
from firnline_iceberg.table.catalog_client import NO_HEADS, Tables
from firnline_iceberg.table.loaded_table import LoadedTable, TableGone
from firnline_iceberg.table.shared_locations import lies_below, places_of, refuse_occupied

TRIES = 3
MAPPING = "schema.name-mapping.default"
FORMAT = 2  # of every archive: copies of v3 files may have row ids in them, which it would repeat
_TAKEN_OVER = ("write.parquet.", "write.metadata.metrics.", "write.target-file-size-bytes", MAPPING)
_V3_TYPES = (TimestampNanoType, TimestamptzNanoType, UnknownType, GeometryType, GeographyType)


class NoArchive(TaskRefused):
    """The table cannot have an archive, or that table is not its archive."""


def archive_name(table: TableName, asked: str) -> tuple[str, ...]:
    """Return namespace levels and name of a table's archive. `asked`: dotted, from the table's
    properties; '' = in the table's own namespace."""
    if not asked:
        return (*table.namespace, f"{table.name}_archive")
    found = tuple(asked.split("."))
    return found if len(found) > 1 else (*table.namespace, *found)


def find_archive(
    tables: Tables, table: LoadedTable, asked: str, keys: Keyring = UNSIGNED
) -> LoadedTable | None:
    """Load the archive; None: there is no table of that name. `keys`: the deployment's, for callers
    that write to it. Raises NoArchive if the table is another's archive, or may not be one;
    RetryLater."""
    *namespace, name = archive_name(table.identity, asked)
    places = ArchiveLocations.parse(tables.for_table(table.identity).archives)
    places.refuse_namespace(table.identity, tuple(namespace))
    try:
        found = tables.for_table(table.identity).load_named(tuple(namespace), name)
    except TableGone:
        return None
    source = archive_mark(table.identity)
    if (said := found.properties.get(ARCHIVE_OF)) != source:
        text = (
            f"{found.identity.dotted_name} is there, and its property {ARCHIVE_OF} is {said!r:.200}"
        )
        raise NoArchive("not_an_archive", f"{text}, not {source}: nothing is written to it")
    _refuse_nested(table, found.metadata.location)
    if not is_sealed(found, source, keys):
        text = f"{found.identity.dotted_name} at {found.metadata.location} is of another deployment"
        remedy = f"or its {SEAL} was made with a key that is not known any more"
        raise NoArchive("not_an_archive", f"{text}, {remedy}: nothing is written to it")
    return found


def archive_mark(table: TableName) -> str:
    """Return the mark of a table's archives. Another table of its uuid, and one that has got its
    name, has another mark; so has the table itself once it is renamed."""
    return f"{table.key}/{table.dotted_name}"


def seal_archive(uuid: str, location: str, source: str, keys: Keyring, at_ms: int) -> str:
    """Return the property `SEAL` of an archive; '' if the deployment does not sign."""
    made = keys.sign(at_ms, *_sealed_parts(uuid, location, source))
    return "" if made is None else f"{made.key_id} {made.at_ms} {made.mac.hex()}"


def is_sealed(archive: LoadedTable, source: str, keys: Keyring) -> bool:
    """Return True if the archive's seal proves that the deployment made it, at this location, for
    this source. Without signing keys an archive without a seal is accepted."""
    text = archive.properties.get(SEAL, "").split(" ")
    try:
        found = Signature(text[0], int(text[1]), bytes.fromhex(text[2]))
    except (ValueError, IndexError):
        return not keys.is_signing
    uuid, location = archive.identity.uuid, archive.metadata.location
    try:
        keys.verify_parts(found, found.at_ms, None, *_sealed_parts(uuid, location, source))
    except SignatureRefused:
        return False
    return True


def _sealed_parts(uuid: str, location: str, source: str) -> tuple[bytes, ...]:
    texts = ("archive", uuid, location.rstrip("/"), source)
    return tuple(one.encode(errors="surrogatepass") for one in texts)


def set_properties(tables: Tables, archive: LoadedTable, **texts: str) -> None:
    """Set properties of an archive, without a snapshot. Raises TableGone, RetryLater."""
    tables.commit_changes(archive.identity, (SetPropertiesUpdate(updates=texts),))


@dataclass(frozen=True)
class ArchiveLocations:
    """Locations where the operator allows archives: below these, and of which namespace in which
    other one. An owner chooses one, and Firnline has rights that the owner may not have."""

    locations: tuple[str, ...]
    pairs: frozenset[tuple[str, str]]

    @classmethod
    def parse(cls, text: str) -> ArchiveLocations:
        """Parse `firnline.archives`."""
        words = [one.strip() for one in text.split(",")]
        pairs = (one.partition(">") for one in words if ">" in one)
        return cls(
            tuple(one for one in words if one and ">" not in one),
            frozenset((own.strip(), other.strip()) for own, _, other in pairs),
        )

    def refuse_namespace(self, table: TableName, namespace: tuple[str, ...]) -> None:
        """Refuse an archive in another namespace that ARCHIVES does not allow. Raises NoArchive."""
        own, other = ".".join(table.namespace), ".".join(namespace)
        if namespace != table.namespace and (own, other) not in self.pairs:
            text = f"{table.dotted_name}: its archive would be in the namespace {other}"
            remedy = f"name it in {own}, or have the operator add {own}>{other} to {ARCHIVES}"
            raise NoArchive("archive_namespace", f"{text}: {remedy}")

    def refuse_location(self, table: TableName, location: str) -> None:
        """Refuse an archive outside the locations that ARCHIVES allows. Raises NoArchive."""
        if lies_below(location, [places_of(one) for one in self.locations]):
            return
        text = f"{table.dotted_name}: its archive would lie at {location[:200]}"
        remedy = f"unset firnline.archive.location, or have the operator add a prefix to {ARCHIVES}"
        raise NoArchive("archive_location", f"{text}: {remedy}")


def create_archive(
    tables: Tables, table: LoadedTable, asked: str, location: str, keys: Keyring, at_ms: int
) -> LoadedTable:
    """Create an archive. `location`: of the owner's; '' = the catalog chooses. Raises NoArchive,
    RetryLater."""
    refuse_unfit(table)
    name, of = archive_name(table.identity, asked), tables.for_table(table.identity)
    places = ArchiveLocations.parse(of.archives)
    places.refuse_namespace(table.identity, name[:-1])
    if location:
        places.refuse_location(table.identity, location)
        _refuse_nested(table, location)
        refuse_occupied(tables, table, location)
    properties = {"format-version": str(FORMAT), **_copied_properties(table)}
    client: Any = of.client
    try:
        staged = client.create_table_transaction(
            name, table.schema, location or None, properties=properties
        ).table_metadata
        _refuse_nested(table, staged.location)
        io = make_file_io({}, staged.location)
        found = Table(name, staged, "", io, client, {})
        source = archive_mark(table.identity)
        sealed = seal_archive(str(staged.table_uuid), staged.location, source, keys, at_ms)
        ours = {ARCHIVE_OF: source, **({SEAL: sealed} if sealed else {})}
        client.commit_table(found, (AssertCreate(),), tuple(_creation_updates(table, staged, ours)))
    except (TableAlreadyExistsError, CommitFailedException):
        pass  # somebody was faster: whose it is will be seen
    except NoSuchNamespaceError as error:
        text = f"there is no namespace {'.'.join(name[:-1])} for the archive: make it first"
        raise NoArchive("archive_gone", text) from error
    except (RESTError, requests.RequestException) as error:
        raise CatalogUnreachable(f"cannot make {'.'.join(name)}: {error}") from error
    if (made := find_archive(tables, table, asked, keys)) is None:
        raise NoArchive("archive_gone", f"{'.'.join(name)} went as soon as it was made")
    return made


def _creation_updates(
    table: LoadedTable, staged: TableMetadata, ours: dict[str, str]
) -> Iterator[TableUpdate]:
    """Yield the updates that create the archive as `staged`, with the schema, the spec and the
    reading properties of its source, and `ours`. Maintenance is off there."""
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
    ours |= {"firnline.enabled": "false"}
    yield SetPropertiesUpdate(updates={**_copied_properties(table), **ours})


def _copied_properties(table: LoadedTable) -> dict[str, str]:
    """Return the properties of how files are read, and would be written: none of places, or of our
    work."""
    return {name: text for name, text in table.properties.items() if name.startswith(_TAKEN_OVER)}


def _refuse_nested(table: LoadedTable, location: str) -> None:
    """Refuse nested locations: what removes files below one of them would see those of the
    other."""
    own, other = parse_address(table.metadata.location), parse_address(location)
    if other is None or own is None:
        raise NoArchive("archive_location", f"{location[:200]} is no location of a table")
    if own == other or own.is_within(other) or other.is_within(own):
        text = f"the archive at {location} and the table at {table.metadata.location} overlap"
        raise NoArchive("archive_location", text)


def refuse_unfit(table: LoadedTable) -> None:
    """Refuse a table with columns that a v2 table cannot hold, or with partitions whose values have
    no reliable text. Raises NoArchive."""
    for field in table.schema.fields:
        _refuse_field(field)
    for spec in table.metadata.partition_specs:
        for one in spec.fields:
            dropped = is_source_dropped(table.schema, one)
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
    for inner in _member_fields(field.field_type):
        _refuse_field(inner)


def _member_fields(kind: IcebergType) -> tuple[NestedField, ...]:
    if isinstance(kind, StructType):
        return kind.fields
    if isinstance(kind, ListType):
        return (kind.element_field,)
    return (kind.key_field, kind.value_field) if isinstance(kind, MapType) else ()


def sync_archive(
    tables: Tables, table: LoadedTable, archive: LoadedTable, spec_ids: Collection[int]
) -> LoadedTable:
    """Give the archive the table's schema and name mapping, and these of its specs: columns that
    came since are there, under the table's ids. Raises NoArchive, RetryLater."""
    refuse_unfit(table)
    for _ in range(TRIES):
        updates = [*_missing_updates(table, archive, spec_ids)]
        if not updates:
            return archive
        schema = AssertCurrentSchemaId.model_validate(
            {"current-schema-id": archive.metadata.current_schema_id}
        )
        tables.commit_changes(archive.identity, tuple(updates), NO_HEADS, schema)
        archive = tables.for_table(archive.identity).load(archive.identity)
    raise CatalogUnreachable(f"the schema of {archive.identity.dotted_name} changes all the time")


def _missing_updates(
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
    """Map the table's partition specs to those of the archive that are the same."""
    there = {_spec_key(one): one.spec_id for one in archive.metadata.partition_specs}
    own = ((one.spec_id, there.get(_spec_key(one))) for one in table.metadata.partition_specs)
    return {spec_id: found for spec_id, found in own if found is not None}


def _spec_key(spec: PartitionSpec) -> tuple[tuple[int, int, str, str], ...]:
    return tuple((one.source_id, one.field_id, str(one.transform), one.name) for one in spec.fields)
