"""Make a table of the bench: `python -m bench.rewrite.table --folder DIR [SHAPE ...]`.

PyArrow writes the files as a streaming writer would; Iceberg's Java API describes and commits
them, one commit per upsert.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from firnline_iceberg.table.loaded_table import LoadedTable

from bench.rewrite.lake import Java, Lake, ints, java, running
from bench.rewrite.rows import batches
from bench.rewrite.shapes import SHAPES, Shape
from bench.rewrite.store import BUCKET
from bench.rewrite.survivors import STORE
from tests.kit.lake.writer import TableWriter

ZSTD_LEVEL = 3
TYPES = {
    "id": "long",
    "tenant": "string",
    "order_id": "string",
    "quantity": "long",
    "amount": "double",
    "updated_at": "timestamptz",
    "status": "string",
    "note": "string",
    "p": "string",
    "day": "date",
}
PAYLOAD = ("quantity", "amount", "updated_at", "status", "note")
FIRST_DAY = 20_000  # days since the epoch: 2024-10-04


@dataclass(frozen=True)
class Written:
    """A file and how Iceberg is to know it."""

    path: str
    url: str
    partition: str  # `p=p0`; empty for an unpartitioned table
    deletes: bool


def key_names(shape: Shape) -> tuple[str, ...]:
    return ("id",) if shape.keys == "long" else ("tenant", "order_id")


def column_names(shape: Shape) -> tuple[str, ...]:
    """The table's columns; field ids count from 1."""
    partition = {"identity": ("p",), "day": ("day",)}.get(shape.spec, ())
    return (*key_names(shape), *PAYLOAD, *partition)


def ensure(lake: Lake, machine: Java, shape: Shape) -> LoadedTable:
    """The shape's table, made if the lake has none."""
    if (found := lake.find(shape.name)) is None:
        create(lake, machine, shape)
        found = lake.find(shape.name)
    assert found is not None
    return found


def create(lake: Lake, machine: Java, shape: Shape) -> None:
    """Write every file, then make the commits in their order."""
    place = _place(lake, shape)
    table = _empty(machine, shape, place)
    write = partial(_write_partition, shape, place or Place.of_location(table.location()))
    with ThreadPoolExecutor(2) as pool:
        partitions = list(pool.map(write, range(shape.partitions)))
    for number in range(shape.commits + 1):
        commit_files(machine, shape, table, [one for files in partitions for one in files[number]])


@dataclass(frozen=True)
class Place:
    """A table's data folder here, and as it is called in its metadata."""

    folder: Path
    url: str
    root: Path | None = None  # of the object store

    @staticmethod
    def of_location(location: str) -> Place:
        """In a local warehouse."""
        return Place(Path(location.removeprefix("file:")) / "data", f"{location}/data")


def _place(lake: Lake, shape: Shape) -> Place | None:
    """None = where the catalog puts the table."""
    if not shape.on_store:
        return None
    name = f"{BUCKET}/{shape.name}/data"
    return Place(store_root(lake) / name, f"s3://{name}", store_root(lake))


def store_root(lake: Lake) -> Path:
    """The local folder behind `s3://`."""
    return lake.folder.absolute() / "store"


def _empty(machine: Java, shape: Shape, place: Place | None) -> Any:
    iceberg = machine.jvm.org.apache.iceberg
    fields = [
        {"id": number, "name": name, "required": False, "type": TYPES[name]}
        for number, name in enumerate(column_names(shape), start=1)
    ]
    text = json.dumps({"type": "struct", "schema-id": 0, "fields": fields})
    schema = iceberg.SchemaParser.fromJson(text)
    spec = iceberg.PartitionSpec.builderFor(schema)
    if shape.spec in ("identity", "day"):
        spec = spec.identity(column_names(shape)[-1])
    elif shape.spec == "bucket":
        spec = spec.bucket("id", shape.partitions)
    properties = machine.jvm.java.util.HashMap()
    for name, value in _properties(shape, place).items():
        properties.put(name, value)
    name = machine.identifier(shape.name)
    return machine.catalog.createTable(name, schema, spec.build(), properties)


def _properties(shape: Shape, place: Place | None) -> dict[str, str]:
    target = {"write.target-file-size-bytes": str(shape.target_bytes)}
    return {
        **({"write.data.path": place.url, STORE: str(place.root)} if place else {}),
        **(target if shape.target_bytes else {}),
        "format-version": "2",
        "write.parquet.compression-codec": "zstd",
        "write.parquet.compression-level": str(ZSTD_LEVEL),
        "write.upsert.enabled": "true",
        # Files are shared between copies of the table.
        "gc.enabled": "false",
    }


def _write_partition(shape: Shape, place: Place, partition: int) -> list[list[Written]]:
    """The partition's files by commit."""
    where = partition_path(shape, partition)
    (place.folder / where).mkdir(parents=True, exist_ok=True)
    write = partial(write_file, shape, place, where)
    made = []
    for number, batch in enumerate(batches(shape, partition)):
        rows = _with_partition(shape, partition, batch.rows)
        parts = shape.base_files if number == 0 else 1
        files = [
            write(f"{number:05d}-{part}.parquet", piece)
            for part, piece in enumerate(_cut(rows, parts))
        ]
        if batch.deleted is not None:
            files.append(write(f"{number:05d}-deletes.parquet", batch.deleted, deletes=True))
        made.append(files)
    return made


def partition_path(shape: Shape, partition: int) -> str:
    """Of a partition's files, below the data folder."""
    match shape.spec:
        case "identity":
            return f"p=p{partition}"
        case "day":
            return f"day={day_of(partition)}"
        case "bucket":
            return f"id_bucket={partition}"
        case "none":
            return ""


def day_of(partition: int) -> Any:
    """A partition's date."""
    return pa.scalar(FIRST_DAY + partition, pa.int32()).cast(pa.date32()).as_py()


def _with_partition(shape: Shape, partition: int, rows: pa.Table) -> pa.Table:
    if shape.spec == "identity":
        return rows.append_column("p", pa.repeat(f"p{partition}", rows.num_rows))
    if shape.spec == "day":
        days = pa.repeat(pa.scalar(day_of(partition)), rows.num_rows)
        return rows.append_column("day", days)
    return rows


def _cut(rows: pa.Table, parts: int) -> Iterator[pa.Table]:
    each = -(-rows.num_rows // parts)
    for part in range(parts):
        yield rows.slice(part * each, each)


def write_file(
    shape: Shape, place: Place, where: str, name: str, rows: pa.Table, deletes: bool = False
) -> Written:
    path = place.folder / where / name
    ids = {name: number for number, name in enumerate(column_names(shape), start=1)}
    fields = [
        field.with_metadata({"PARQUET:field_id": str(ids[field.name])}) for field in rows.schema
    ]
    if not path.exists():  # of a table with the same rows
        part = path.with_suffix(".part")
        pq.write_table(
            rows.cast(pa.schema(fields)),
            part,
            compression="zstd",
            compression_level=ZSTD_LEVEL,
            row_group_size=shape.row_group_rows,
            store_schema=False,
        )
        part.replace(path)
    url = "/".join(filter(None, (place.url, where, name)))
    return Written(f"file:{path}", url, where, deletes)


def commit_files(machine: Java, shape: Shape, table: Any, files: list[Written]) -> None:
    """Data files and equality-delete files, in one row delta."""
    rows = [_described(machine, shape, table, file) for file in files if not file.deletes]
    deletes = [_described(machine, shape, table, file) for file in files if file.deletes]
    TableWriter(machine.jvm, lambda: table).row_delta(rows, deletes)


def _described(machine: Java, shape: Shape, table: Any, file: Written) -> Any:
    """A DataFile or DeleteFile with Iceberg's own metrics and the row groups' offsets."""
    iceberg = machine.jvm.org.apache.iceberg
    source = table.io().newInputFile(file.path)
    config = iceberg.MetricsConfig.forTable(table)
    builder = iceberg.DataFiles.builder(table.spec())
    if file.deletes:
        ids = ints(machine.jvm, tuple(range(1, len(key_names(shape)) + 1)))
        builder = iceberg.FileMetadata.deleteFileBuilder(table.spec()).ofEqualityDeletes(ids)
    builder = builder.withInputFile(source).withFormat("parquet")
    builder = builder.withMetrics(iceberg.parquet.ParquetUtil.fileMetrics(source, config))
    if file.partition:
        builder = builder.withPartitionPath(file.partition)
    return _completed(iceberg, table, builder.build(), file)


def _completed(iceberg: Any, table: Any, built: Any, file: Written) -> Any:
    """With the row groups' offsets (py4j makes Integers of small longs) and the path's name."""
    body = json.loads(iceberg.ContentFileParser.toJson(built, table.spec()))
    body["file-path"] = file.url
    footer = pq.read_metadata(file.path.removeprefix("file:"))
    columns = (footer.row_group(index).column(0) for index in range(footer.num_row_groups))
    body["split-offsets"] = [
        one.dictionary_page_offset if one.has_dictionary_page else one.data_page_offset
        for one in columns
    ]
    mapper = iceberg.shaded.com.fasterxml.jackson.databind.ObjectMapper()
    return iceberg.ContentFileParser.fromJson(mapper.readTree(json.dumps(body)), table.specs())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("shapes", nargs="*", default=["main"], help=", ".join(SHAPES))
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--scale", type=float, default=1.0)
    given = parser.parse_args()
    with running(given.folder) as lake, java(lake) as machine:
        for name in given.shapes:
            start = time.monotonic()
            found = ensure(lake, machine, SHAPES[name].scaled(given.scale))
            summary = found.head("main").summary
            seconds = time.monotonic() - start
            print(f"{found.metadata_location} ({seconds:.0f} s)\n{summary}", flush=True)


if __name__ == "__main__":
    main()
