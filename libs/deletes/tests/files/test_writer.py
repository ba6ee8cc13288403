from __future__ import annotations

import io
import math

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from firnline_deletes.files.writer_properties import ParquetProperties, from_table
from firnline_deletes.unsupported_files import UnsupportedFile


def batch(schema: pa.Schema, *columns: object) -> pa.RecordBatch:
    arrays = [pa.array(c, f.type) for c, f in zip(columns, schema, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


@pytest.mark.parametrize("rows", [30_000, 37_000, 60_000, 100_000, 140_000, 240_000])
def test_files_roll_near_the_target_and_account_for_every_row(folder, rows):
    schema = pa.schema([folder.column("k", 1, pa.int64()), folder.column("v", 2, pa.string())])
    writer = folder.writer(schema, target_bytes=100_000)
    writer.expect_rows(rows)
    for start in range(0, rows, 1000):
        keys = list(range(start, start + 1000))
        writer.write_batch(batch(schema, keys, [f"value {k * 7919 % 100_003}" for k in keys]))
    assert [k for k, _ in folder.rows_of(writer)] == list(range(rows))
    assert sum(file.bytes for file in writer.files) > 75_000
    for file in writer.files:
        assert 75_000 <= file.bytes <= 180_000
        footer = pq.read_metadata(file.path)
        assert file.rows == footer.num_rows
        assert file.bytes == (folder.root / file.path).stat().st_size
        assert len(file.split_offsets) == footer.num_row_groups <= 4  # each repeats dictionaries
        assert file.split_offsets[0] == 4  # right after the magic
        assert list(file.split_offsets) == sorted(file.split_offsets)


TEXT = ["red", "green", "blue", None]


def texts(folder, *columns):
    """A writer of one text column, and batches of it."""
    schema = pa.schema([folder.column("c", 1, pa.string())])
    batches = [
        pa.RecordBatch.from_arrays(
            [column], schema=pa.schema([schema.field(0).with_type(column.type)])
        )
        for column in columns
    ]
    return schema, batches


def test_dictionaries_are_written_as_such_whatever_they_hold(folder):
    one, two = pa.array(TEXT * 50).dictionary_encode(), pa.array(["blue", "grey"] * 50)
    schema, batches = texts(folder, one, two.dictionary_encode())
    writer = folder.writer(schema)
    for made in batches:
        writer.write_batch(made)
    assert [row for (row,) in folder.rows_of(writer)] == TEXT * 50 + ["blue", "grey"] * 50
    column = pq.read_metadata(writer.files[0].path).row_group(0).column(0)
    assert "RLE_DICTIONARY" in column.encodings
    assert (column.statistics.min, column.statistics.max) == ("blue", "red")


def test_plain_text_and_dictionaries_meet_in_one_column(folder):
    plain, encoded = pa.array(TEXT * 5), pa.array(TEXT * 5).dictionary_encode()
    for order in ([plain, encoded], [encoded, plain]):
        schema, batches = texts(folder, *order)
        writer = folder.writer(schema, target_bytes=100)  # several row groups
        for made in batches:
            writer.write_batch(made)
        assert [row for (row,) in folder.rows_of(writer)] == TEXT * 10


def test_a_dictionary_that_outgrows_its_limit_begins_another_file(folder):
    properties = ParquetProperties(dictionary_bytes=100, row_group_bytes=400)
    few = pa.array(["a", "b"] * 200).dictionary_encode()
    many = pa.array([f"value {n:040}" for n in range(300)]).dictionary_encode()
    schema, batches = texts(folder, few, many)
    writer = folder.writer(schema, properties=properties)
    for made in batches:
        writer.write_batch(made)
    assert len(folder.rows_of(writer)) == 700
    assert len(writer.files) > 1
    footer = pq.read_metadata(writer.files[-1].path)
    groups = [footer.row_group(i).column(0) for i in range(footer.num_row_groups)]
    assert all(group.dictionary_page_offset is None for group in groups)


def test_a_dictionary_that_does_not_pay_is_not_made(folder):
    schema = pa.schema([folder.column("k", 1, pa.int64()), folder.column("few", 2, pa.int64())])
    writer = folder.writer(schema)
    writer.write_batch(batch(schema, list(range(5000)), [n % 3 for n in range(5000)]))
    group = pq.read_metadata(writer.close()[0].path).row_group(0)
    found = ["RLE_DICTIONARY" in group.column(index).encodings for index in range(2)]
    assert found == [False, True]


def test_the_last_name_takes_all_that_is_left(folder):
    schema = pa.schema([folder.column("k", 1, pa.int64())])
    writer = folder.writer(schema, target_bytes=2_000, files=2)
    writer.expect_rows(5_000)
    for start in range(0, 5_000, 100):
        writer.write_batch(batch(schema, list(range(start, start + 100))))
    assert len(folder.rows_of(writer)) == 5_000
    assert len(writer.files) == 2
    assert writer.files[0].bytes < writer.files[1].bytes


def test_no_row_makes_no_file(folder):
    schema = pa.schema([folder.column("k", 1, pa.int64())])
    writer = folder.writer(schema)
    writer.write_batch(batch(schema, []))
    assert writer.close() == []


class FullStorage(io.BytesIO):
    """A file that its storage can neither complete nor drop."""

    refused = 0

    def close(self) -> None:
        self.refused += 1
        raise OSError("InternalError when calling the AbortMultipartUpload operation")


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_a_storage_that_drops_no_file_does_not_hide_why_it_is_dropped(folder):
    schema, kept = pa.schema([folder.column("n", 1, pa.int64())]), FullStorage()
    writer = folder.writer(schema)
    writer.create = lambda _: pa.PythonFile(kept, "w")
    writer.write_batch(pa.record_batch([pa.array(range(200_000))], schema))
    writer.abort()
    assert kept.refused == 1


def test_footer_has_ids_no_arrow_schema_and_iceberg_decimals(folder):
    schema = pa.schema(
        [
            folder.column("k", 1, pa.int64(), False),
            folder.column("d9", 2, pa.decimal128(9, 2)),
            folder.column("d18", 3, pa.decimal128(18, 2)),
            folder.column("d38", 4, pa.decimal128(38, 2)),
            folder.column("ts", 5, pa.timestamp("us", "UTC")),
            folder.column("l", 6, pa.list_(folder.column("element", 7, pa.int32()))),
        ]
    )
    writer = folder.writer(schema)
    writer.write_batch(batch(schema, [1], [None], [None], [None], [None], [[1]]))
    file = pq.ParquetFile(writer.close()[0].path)
    physical = [file.schema.column(i).physical_type for i in range(6)]
    assert physical == ["INT64", "INT32", "INT64", "FIXED_LEN_BYTE_ARRAY", "INT64", "INT32"]
    assert file.schema.column(5).path == "l.list.element"
    assert b"ARROW:schema" not in (file.metadata.metadata or {})
    assert file.schema_arrow.equals(writer.schema, check_metadata=True)
    assert file.metadata.row_group(0).column(0).compression == "ZSTD"
    assert file.metadata.row_group(0).column(0).has_column_index


def test_nans_are_counted_by_field_id_but_not_in_lists(folder):
    floats = pa.struct([folder.column("f", 3, pa.float32())])
    schema = pa.schema(
        [
            folder.column("d", 1, pa.float64()),
            folder.column("s", 2, floats),
            folder.column("l", 4, pa.list_(folder.column("element", 5, pa.float64()))),
        ]
    )
    nan = math.nan
    writer = folder.writer(schema)
    writer.write_batch(batch(schema, [nan, 1.0, None], [{"f": nan}, {"f": nan}, None], [[nan]] * 3))
    writer.write_batch(batch(schema, [nan], [None], [None]))
    assert writer.close()[0].nan_counts == {1: 2, 3: 2}


def test_table_properties_reach_the_writer(folder):
    properties = from_table(
        {
            "write.parquet.compression-codec": "GZIP",
            "write.parquet.compression-level": "9",
            "write.parquet.row-group-size-bytes": "1000",
            "write.parquet.page-size-bytes": "100",
            "write.parquet.page-row-limit": "10",
            "write.parquet.dict-size-bytes": "5000",
            "write.parquet.page-version": "v2",
            "write.parquet.dict-encoding-enabled.column.k": "false",
            "write.parquet.stats-enabled.column.v": "false",
            "write.parquet.bloom-filter-enabled.column.v": "true",
            "write.parquet.bloom-filter-ndv.column.v": "1000",
        }
    )
    assert (properties.codec, properties.level) == ("gzip", 9)
    assert properties.bloom_filters == {"v": {"fpp": 0.01, "ndv": 1000}}
    schema = pa.schema([folder.column("k", 1, pa.int64()), folder.column("v", 2, pa.string())])
    writer = folder.writer(schema, properties=properties)
    writer.write_batch(batch(schema, list(range(1000)), ["a", "b"] * 500))
    footer = pq.read_metadata(writer.close()[0].path)
    assert footer.num_row_groups > 5
    key, value = (footer.row_group(0).column(i) for i in range(2))
    assert key.compression == "GZIP"
    assert "RLE_DICTIONARY" not in key.encodings
    assert "RLE_DICTIONARY" in value.encodings
    assert not value.is_stats_set
    assert key.is_stats_set


def test_defaults_and_codecs():
    assert from_table({}) == ParquetProperties()
    assert from_table({"write.parquet.compression-codec": "uncompressed"}).codec == "none"
    assert from_table({"write.parquet.compression-codec": "snappy"}).level is None
    with pytest.raises(UnsupportedFile) as refused:
        from_table({"write.parquet.compression-codec": "lzo"})
    assert refused.value.reason == "codec"
