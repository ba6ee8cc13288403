"""Target of every file of a scope: the table's columns, and values for missing ones."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import pyarrow as pa

from firnline_deletes.columns.fields import with_id
from firnline_deletes.columns.name_mapping import NameMapping, apply_mapping, has_ids

ROW_ID, LAST_UPDATED = 2147483540, 2147483539  # spec, "Reserved Field IDs"
LINEAGE = (
    with_id(pa.field("_row_id", pa.int64()), ROW_ID),
    with_id(pa.field("_last_updated_sequence_number", pa.int64()), LAST_UPDATED),
)


@dataclass(frozen=True)
class TargetSchema:
    """`columns` has the form of `projection.table_schema`.

    `absent`: field id -> an array of the one value that a column has in files without it, in the
    column's type: the identity partition's, else `initial-default` (spec, "Column Projection").
    `unknown`: ids whose value for such a file cannot be told here. `structs`: id of a field in a
    struct -> id of the struct. `lineage`: outputs carry row ids, as those of v3 tables do.
    `proved`: ids of the columns, none inside a list or map, that the checksums are of.
    """

    columns: pa.Schema
    absent: Mapping[int, pa.Array] = field(default_factory=dict)
    unknown: frozenset[int] = frozenset()
    structs: Mapping[int, int] = field(default_factory=dict)
    names: NameMapping | None = None
    lineage: bool = False
    proved: tuple[int, ...] = ()

    @property
    def output_schema(self) -> pa.Schema:
        """Return the schema of outputs: Spark appends the two columns of row lineage in this
        order."""
        return pa.schema([*self.columns, *LINEAGE]) if self.lineage else self.columns

    def with_ids(self, schema: pa.Schema) -> pa.Schema:
        """Return a file's schema with its field ids: its own, or those of the name mapping."""
        if self.names is None or has_ids(schema):
            return schema
        return apply_mapping(schema, self.names)
