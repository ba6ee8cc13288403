"""Whatever an owner writes into `write.parquet.*`: outputs are written, or the table is handed over
with a reason. Through the real writer, a column of each type at a time."""

from __future__ import annotations

import datetime
import io
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from firnline_deletes.files.writer import RollingWriter, leaf_types
from firnline_deletes.files.writer_properties import from_table
from firnline_deletes.unsupported_files import UnsupportedFile
from firnline_domain.settings.parquet import CODEC, PARQUET, PARQUET_COLUMNS, readable_properties

ROWS = 40
MOMENT = datetime.datetime(2026, 1, 2, 3, 4, 5)
VALUES: dict[str, tuple[pa.DataType, Any]] = {
    "flag": (pa.bool_(), True),
    "int": (pa.int32(), 7),
    "long": (pa.int64(), 7),
    "float": (pa.float32(), 0.5),
    "double": (pa.float64(), 0.5),
    "decimal": (pa.decimal128(9, 2), Decimal("1.50")),
    "wide": (pa.decimal128(38, 0), Decimal(10**37)),
    "date": (pa.date32(), MOMENT.date()),
    "time": (pa.time64("us"), MOMENT.time()),
    "moment": (pa.timestamp("us"), MOMENT),
    "zoned": (pa.timestamp("us", "UTC"), MOMENT),
    "nanos": (pa.timestamp("ns"), MOMENT),
    "text": (pa.string(), "x"),
    "bytes": (pa.binary(), b"x"),
    "fixed": (pa.binary(4), b"1234"),
    "uuid": (pa.uuid(), b"0123456789abcdef"),
    "none": (pa.string(), None),
    "struct": (pa.struct([("flag", pa.bool_()), ("a.b", pa.int32())]), {"flag": True, "a.b": 1}),
    "list": (pa.list_(pa.field("element", pa.bool_())), [True]),
    "map": (pa.map_(pa.string(), pa.bool_()), [("k", True)]),
    "We\"ird' `x` #": (pa.int64(), 7),
    "ä ß.c": (pa.string(), "ü"),
}
SCHEMA = pa.schema(
    [
        pa.field(name, kind, metadata={"PARQUET:field_id": str(number)})
        for number, (name, (kind, _)) in enumerate(VALUES.items(), 1)
    ]
)
TABLE = pa.table([pa.array([value] * ROWS, kind) for kind, value in VALUES.values()], schema=SCHEMA)
COLUMNS = (*leaf_types(SCHEMA), "list.element", "map.value", "struct", "gone", "FLAG", "", ".", "*")
TEXTS = (
    *("", " ", "-1", "0", "1", "true", "TRUE", "false", "yes", "v1", "V2", "x" * 5_000, "\x00"),
    *("1e999", "NaN", "0.5", "2", "100000000", "2147483647", "2147483648", "9" * 30, "١٢", "zstd"),
    *("ZSTD", " zstd", "gzip", "lz4", "lz4_raw", "LZ4_RAW", "brotli", "snappy", "none", "lzo"),
    *("uncompressed", "İ"),
)


def write(properties: dict[str, str]) -> Any:
    sink = io.BytesIO()
    written = from_table(readable_properties(properties))
    path, kept = "file", pa.PythonFile(sink, "w")
    writer = RollingWriter(SCHEMA, written, 512 << 20, [path], lambda _: kept)
    sink.close = lambda: None  # type: ignore[method-assign]
    for batch in TABLE.to_batches():
        writer.write_batch(batch)
    writer.close()
    return pq.ParquetFile(io.BytesIO(sink.getvalue()))


def hostile() -> Iterator[tuple[str, str]]:
    for name in PARQUET:
        yield from ((name, text) for text in TEXTS)
    for start in PARQUET_COLUMNS:
        yield from (
            (start + column, text) for column in COLUMNS for text in ("true", "false", "-1")
        )


def test_outputs_are_written_whatever_the_properties_say() -> None:
    for name, text in hostile():
        beside = {
            name.replace("-fpp.", "-enabled.").replace("-ndv.", "-enabled."): "true",
            name: text,
        }
        if (name, text) == (CODEC, "lzo"):
            with pytest.raises(UnsupportedFile, match="codec"):
                write(beside)
        else:
            assert write(beside).metadata.num_rows == ROWS, (name, text)


def test_all_of_them_at_once() -> None:
    every = {start + column: "true" for start in PARQUET_COLUMNS for column in COLUMNS}
    most = {name: "100000000" for name in every if "-ndv." in name}
    for text in TEXTS:
        given = {**dict.fromkeys(PARQUET, text), **every, **most, CODEC: "zstd"}
        assert write(given).metadata.num_rows == ROWS


def blooms(properties: dict[str, str]) -> set[str]:
    group = write(properties).metadata.row_group(0)
    columns = [group.column(number) for number in range(group.num_columns)]
    return {one.path_in_schema for one in columns if one.bloom_filter_offset is not None}


def test_filters_are_on_the_columns_that_can_have_one() -> None:
    start = "write.parquet.bloom-filter-enabled.column."
    asked = {
        start + column: "true" for column in ("long", "flag", "struct.flag", "struct.a.b", "x")
    }
    assert blooms({**asked, start + "text": "yes", start + "ä ß.c": "TRUE"}) == {
        "long", "struct.a.b", "ä ß.c",
    }  # fmt: skip


@pytest.mark.parametrize("ndv", ["", "100000000"])
@pytest.mark.parametrize("fpp", ["0.000001", "0.01", "0.999"])
def test_filters_take_no_more_than_they_may(ndv: str, fpp: str) -> None:
    """Arrow makes them of their whole size in memory, one for each column and row group."""
    at = "write.parquet.bloom-filter-"
    given = {f"{at}enabled.column.c{number}": "true" for number in range(300)}
    given |= {f"{at}fpp.column.c{number}": fpp for number in range(300)}
    given |= {f"{at}ndv.column.c{number}": ndv for number in range(300)}
    leaves = {f"c{number}": pa.int64() for number in range(300)}
    for name, most in (({}, 1 << 20), ({f"{at}max-bytes": "134217728"}, (256 << 20) // 300)):
        options = from_table(readable_properties({**given, **name})).writer_options(leaves)
        for how in options["bloom_filter_options"].values():
            assert arrow_bytes(**how) <= most


def arrow_bytes(fpp: float, ndv: int) -> int:
    """`BlockSplitBloomFilter::OptimalNumOfBytes` of Arrow."""
    import math

    bits = int(-8.0 * ndv / math.log(1 - pow(fpp, 1.0 / 8)))
    return max(32, 1 << max(bits - 1, 1).bit_length() >> 3)
