"""A table under the hands of its writers: files by PyArrow, commits by Iceberg's Java API."""

from __future__ import annotations

import json
import uuid
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from firnline_domain.identity import MAIN, TableName
from firnline_iceberg.java.api import content_file_json, load_table
from firnline_iceberg.metadata.partition_text import PartitionText
from pyiceberg.io.pyarrow import schema_to_pyarrow
from pyiceberg.partitioning import PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.types import IcebergType, IntegerType, LongType

from firnline_fuzz.values import array
from tests.kit.lake.writer import TableWriter, local

_ID = b"PARQUET:field_id"
_POSITIONS = pa.schema([
    pa.field("file_path", pa.string(), nullable=False, metadata={_ID: b"2147483546"}),
    pa.field("pos", pa.int64(), nullable=False, metadata={_ID: b"2147483545"}),
])  # fmt: skip
Rows = Sequence[Sequence[Any]]
Values = tuple[Any, ...]
"""Source values of a partition, in spec-field order."""


@dataclass(frozen=True)
class Place:
    """A spec and a partition of it, for writing: the partition as JSON values."""

    spec_id: int
    partition: tuple[Any, ...]


@dataclass(frozen=True)
class Live:
    """A live data file as Java plans it."""

    path: str
    rows: int
    place: Place
    vectors: tuple[str, ...]  # its deletion vector, as `ContentFileParser` JSON
    position_files: tuple[str, ...] = ()  # paths of position deletes that may name it


@dataclass
class Table:
    """One table. Methods that write commit once, to `ref`."""

    jvm: Any
    catalog: Any
    name: TableName
    positions: dict[str, set[int]] = field(default_factory=lambda: defaultdict(set))
    _last: Any = None

    @property
    def java(self) -> Any:
        """As the catalog has it now."""
        self._last = load_table(self.jvm, self.catalog, self.name)
        return self._last

    @property
    def known(self) -> Any:
        """As last loaded, and changed through that: for what rewrites leave alone. Asking the
        catalog for each of those was a sixth of the time."""
        return self.java if self._last is None else self._last

    @property
    def version(self) -> int:
        return int(self.java.operations().current().formatVersion())

    def schema(self) -> dict[str, Any]:
        """The current schema as JSON."""
        return dict(
            json.loads(self.jvm.org.apache.iceberg.SchemaParser.toJson(self.known.schema()))
        )

    def spec(self, spec_id: int | None = None) -> PartitionSpec:
        java = self.known
        found = java.spec() if spec_id is None else java.specs().get(spec_id)
        text = self.jvm.org.apache.iceberg.PartitionSpecParser.toJson(found)
        return PartitionSpec.model_validate_json(text)

    def sources(self) -> list[int]:
        """Source ids of the current spec."""
        return [one.source_id for one in self.spec().fields]

    def place(self, values: Mapping[int, Any], spec_id: int | None = None) -> Place:
        """Where rows of these values (by field id) go under a spec, by default the current one."""
        schema, spec = Schema.model_validate(without_defaults(self.schema())), self.spec(spec_id)
        found = {}
        for one in spec.fields:
            source = schema.find_type(one.source_id)
            value = one.transform.transform(source)(values[one.source_id])
            found[one.field_id] = _wrapped(source, value)
        text = PartitionText(spec, [schema])(found)
        return Place(spec.spec_id, tuple(json.loads(text)) or (None,) * len(spec.fields))

    def live(self, ref: str = MAIN) -> list[Live]:
        """Live data files of a ref."""
        java = self.java
        if java.snapshot(ref) is None:
            return []
        tasks = java.newScan().useRef(ref).planFiles()
        each, found = tasks.iterator(), []
        while each.hasNext():
            found.append(self._live(java, each.next()))
        tasks.close()
        return sorted(found, key=lambda one: (one.place.spec_id, one.rows, one.path))

    def _live(self, java: Any, task: Any) -> Live:
        body = json.loads(content_file_json(self.jvm, java, task.file()))
        deletes = [content_file_json(self.jvm, java, delete) for delete in task.deletes()]
        vectors = tuple(text for text in deletes if json.loads(text)["file-format"] == "puffin")
        place = Place(body["spec-id"], tuple(body["partition"]))
        bodies = (json.loads(text) for text in deletes if text not in vectors)
        named = tuple(b["file-path"] for b in bodies if b["content"] == "position-deletes")
        return Live(body["file-path"], body["record-count"], place, vectors, named)

    # ---- files

    def data_file(
        self,
        rows: Rows,
        place: Place,
        rng: Random,
        bare: bool = False,
        without: frozenset[int] = frozenset(),
    ) -> Any:
        """A Java DataFile. `bare`: no field ids; `without`: columns left out of the file."""
        schema = self.arrow()
        columns = [array(f.type, [row[n] for row in rows]) for n, f in enumerate(schema)]
        made = pa.Table.from_arrays(columns, schema=schema)
        kept = [f.name for f in schema if number(f) not in without]
        made = made.select(kept)
        path = self._write(stripped(made) if bare else made, rng.choice([1, 2, 1 << 20]))
        return self._built(self._data_builder(place), path, place, self._metrics(path, bare))

    def adopted(self, table: pa.Table, place: Place) -> Any:
        """A Java DataFile of whatever columns, without metrics."""
        path = self._write(table, 1 << 20)
        builder = self._data_builder(place).withRecordCount(table.num_rows)
        return self._built(builder, path, place, None)

    def equality_file(self, columns: Sequence[pa.Field], ids: Sequence[int], place: Place,
                      values: Sequence[Sequence[Any]]) -> Any:  # fmt: skip
        """A Java DeleteFile of `columns` in this order; `values` by column."""
        arrays = [array(f.type, one) for f, one in zip(columns, values, strict=True)]
        path = self._write(pa.Table.from_arrays(arrays, schema=pa.schema(columns)), 1 << 20)
        builder = self._delete_builder(place).ofEqualityDeletes(self._ints(ids))
        return self._built(builder, path, place, self._metrics(path))

    def position_file(self, dead: Mapping[str, Sequence[int]], place: Place, scoped: bool) -> Any:
        """A Java DeleteFile of positions of data files."""
        pairs = sorted((path, one) for path, positions in dead.items() for one in positions)
        table = pa.Table.from_arrays(
            [pa.array([p for p, _ in pairs], pa.string()), pa.array([n for _, n in pairs])],
            schema=_POSITIONS,
        )
        path = self._write(table, 1 << 20)
        config = self.jvm.org.apache.iceberg.MetricsConfig.forPositionDelete()
        metrics = self.jvm.org.apache.iceberg.parquet.ParquetUtil.fileMetrics(
            self.known.io().newInputFile(path), config
        )
        builder = self._delete_builder(place).ofPositionDeletes()
        if scoped:
            builder = builder.withReferencedDataFile(next(iter(dead)))
        return self._built(builder, path, place, metrics)

    def vectors(self, dead: Mapping[Live, Sequence[int]]) -> list[Any]:
        """Java DeleteFiles: a deletion vector per data file, in one Puffin file."""
        iceberg, java = self.jvm.org.apache.iceberg, self.known
        files = iceberg.io.OutputFileFactory.builderFor(java, 1, uuid.uuid4().int % 2**31)
        files = files.format(iceberg.FileFormat.PUFFIN).build()
        writer = iceberg.deletes.BaseDVFileWriter(files, _NoPrevious())
        for one, positions in dead.items():
            spec = java.specs().get(one.place.spec_id)
            for position in positions:
                writer.delete(one.path, position, spec, self._partition(one.place))
        writer.close()
        return list(writer.result().deleteFiles())

    def arrow(self) -> pa.Schema:
        """The current schema in Arrow, with field ids."""
        return schema_to_pyarrow(Schema.model_validate(without_defaults(self.schema())))

    def _write(self, table: pa.Table, group_rows: int) -> str:
        # As Iceberg's writers name files: what has another name is never taken away as an orphan.
        path = f"{self.known.location()}/data/00000-0-{uuid.uuid4()}-00001.parquet"
        where = local(path)
        where.parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(table, where, store_schema=False, row_group_size=group_rows)
        return path

    def _metrics(self, path: str, bare: bool = False) -> Any:
        iceberg = self.jvm.org.apache.iceberg
        table = self.known
        config, file = iceberg.MetricsConfig.forTable(table), table.io().newInputFile(path)
        if not bare:
            return iceberg.parquet.ParquetUtil.fileMetrics(file, config)
        return iceberg.parquet.ParquetUtil.fileMetrics(file, config, self.mapping())

    def mapping(self) -> Any:
        """The table's name mapping, made from its schema where there is none."""
        text = self.known.properties().get("schema.name-mapping.default")
        parser = self.jvm.org.apache.iceberg.mapping.NameMappingParser
        if text:
            return parser.fromJson(text)
        return self.jvm.org.apache.iceberg.mapping.MappingUtil.create(self.known.schema())

    def map_names(self) -> None:
        """Give the table a name mapping of its current schema."""
        mapping = self.jvm.org.apache.iceberg.mapping.MappingUtil.create(self.java.schema())
        text = self.jvm.org.apache.iceberg.mapping.NameMappingParser.toJson(mapping)
        self.java.updateProperties().set("schema.name-mapping.default", text).commit()

    def _data_builder(self, place: Place) -> Any:
        spec = self.known.specs().get(place.spec_id)
        return self.jvm.org.apache.iceberg.DataFiles.builder(spec)

    def _delete_builder(self, place: Place) -> Any:
        spec = self.known.specs().get(place.spec_id)
        return self.jvm.org.apache.iceberg.FileMetadata.deleteFileBuilder(spec)

    def _built(self, builder: Any, path: str, place: Place, metrics: Any) -> Any:
        builder = builder.withInputFile(self.known.io().newInputFile(path)).withFormat("parquet")
        if place.partition:
            builder = builder.withPartition(self._partition(place))
        return (builder if metrics is None else builder.withMetrics(metrics)).build()

    def _partition(self, place: Place) -> Any:
        kind = self.known.specs().get(place.spec_id).partitionType()
        ids = [str(one.fieldId()) for one in kind.fields()]
        if not ids:
            return None
        text = json.dumps(dict(zip(ids, place.partition, strict=True)))
        return self.jvm.org.apache.iceberg.SingleValueParser.fromJson(kind, text)

    def _ints(self, numbers: Sequence[int]) -> Any:
        made = self.jvm.java.lang.reflect.Array.newInstance(
            self.jvm.java.lang.Integer.TYPE, len(numbers)
        )
        for index, one in enumerate(numbers):
            made[index] = one
        return made

    # ---- commits

    @property
    def writer(self) -> TableWriter:
        return TableWriter(self.jvm, lambda: self.java)

    def append(self, files: Sequence[Any], ref: str = MAIN) -> None:
        self.writer.append(*files, ref=ref)

    def delta(
        self,
        rows: Sequence[Any],
        deletes: Sequence[Any],
        gone: Sequence[str] = (),
        ref: str = MAIN,
    ) -> None:
        """One `RowDelta`; `gone`: replaced deletion vectors as JSON."""
        self.writer.row_delta(rows, deletes, removed=gone, ref=ref)

    def evolve(self, schema: Mapping[str, Any], last_column_id: int) -> None:
        """Make `schema` the current one."""
        iceberg = self.jvm.org.apache.iceberg
        operations = self.java.operations()
        base = operations.current()
        new = iceberg.SchemaParser.fromJson(json.dumps(schema))
        change = iceberg.TableMetadata.buildFrom(base).setCurrentSchema(new, last_column_id)
        operations.commit(base, change.build())

    @property
    def last_column_id(self) -> int:
        return int(self.java.operations().current().lastColumnId())


class _NoPrevious:
    """`Function<String, PositionDeleteIndex>`: what was deleted before is given again."""

    def apply(self, _: str) -> None:
        return None

    class Java:
        implements = ("java.util.function.Function",)


def _wrapped(kind: IcebergType, value: Any) -> Any:
    """As Java has it: the smallest int, truncated, is the largest but some."""
    bits = {IntegerType: 32, LongType: 64}.get(type(kind))
    if bits is None or not isinstance(value, int):
        return value
    return int((value + 2 ** (bits - 1)) % 2**bits - 2 ** (bits - 1))


def without_defaults(schema: Any) -> Any:
    """The same schema JSON: PyIceberg cannot read every default."""
    if isinstance(schema, dict):
        kept = {k: v for k, v in schema.items() if k not in ("initial-default", "write-default")}
        return {key: without_defaults(value) for key, value in kept.items()}
    return [without_defaults(one) for one in schema] if isinstance(schema, list) else schema


def number(field: pa.Field) -> int:
    return int(field.metadata[_ID])


def stripped(table: pa.Table) -> pa.Table:
    """The same columns without field ids, at any depth."""
    return table.cast(pa.schema([_bare(one) for one in table.schema]))


def _bare(one: pa.Field) -> pa.Field:
    return pa.field(one.name, _bare_type(one.type), one.nullable)


def _bare_type(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_struct(kind):
        return pa.struct([_bare(kind.field(n)) for n in range(kind.num_fields)])
    if pa.types.is_map(kind):
        return pa.map_(_bare(kind.key_field), _bare(kind.item_field))
    if pa.types.is_large_list(kind):
        return pa.large_list(_bare(kind.value_field))
    if pa.types.is_list(kind):
        return pa.list_(_bare(kind.value_field))
    return kind
