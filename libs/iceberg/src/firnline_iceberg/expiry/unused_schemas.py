"""Schemas and partition specs that no retained snapshot needs, by metadata and manifest lists.

Iceberg's `cleanExpiredMetadata` takes them out. It looks at the schema that each snapshot was
written with, and not at what an equality delete names by its id: a delete on a column that is in no
other schema any more could not be read then. So nothing goes where one may be.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

from firnline_domain.base.values import Value
from pyiceberg.schema import index_by_id

from firnline_iceberg.table.loaded_table import LoadedTable

READERS = 8  # threads, of manifest lists
_EQUALITY_DELETES = "total-equality-deletes"


class Unused(Value):
    """Their ids."""

    schemas: tuple[int, ...] = ()
    specs: tuple[int, ...] = ()


def unused_metadata(table: LoadedTable) -> Unused:
    """Find schemas and specs that no snapshot or file uses. Reads no manifest list if there is only
    one spec. Raises MetadataFileGone, RetryLater."""
    metadata = table.metadata
    used = {metadata.current_schema_id, *(one.schema_id for one in table.snapshots)}
    if None in used:  # written before snapshots told
        return Unused()
    unused = Unused(
        tuple(sorted(one.schema_id for one in metadata.schemas if one.schema_id not in used)),
        _unused_specs(table),
    )
    return Unused() if _are_keys_at_risk(table, unused.schemas) else unused


def _unused_specs(table: LoadedTable) -> tuple[int, ...]:
    known = {one.spec_id for one in table.metadata.partition_specs}
    known.discard(table.metadata.default_spec_id)
    if not known:
        return ()
    with ThreadPoolExecutor(READERS) as pool:
        for manifests in pool.map(table.manifests_of, table.snapshots):
            known -= {one.spec_id for one in manifests}
    return tuple(sorted(known))


def _are_keys_at_risk(table: LoadedTable, schemas: tuple[int, ...]) -> bool:
    """Return True if some retained equality delete may name a column of these schemas alone."""
    columns = {True: set[int](), False: set[int]()}
    for schema in table.metadata.schemas:
        columns[schema.schema_id in schemas].update(index_by_id(schema))
    if columns[True] <= columns[False]:
        return False
    return any(
        one.summary is None or one.summary.additional_properties.get(_EQUALITY_DELETES) != "0"
        for one in table.snapshots
    )
