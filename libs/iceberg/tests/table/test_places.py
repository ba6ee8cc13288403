"""Folders that a path may be, for any of its readers."""

from __future__ import annotations

from firnline_iceberg.table.shared_locations import places_of, places_of_metadata


def test_no_location_is_too_odd_to_be_compared() -> None:
    for text in (
        "",
        "s3:",
        "s3://",
        "file:",
        "x",
        "\0",
        "\ud800",
        "file:///\ud800\0",
        "a" * 9_000,
        "::",
        "s3:///x",
    ):
        assert places_of(text)


def test_stores_that_have_several_names_are_one() -> None:
    assert places_of("abfss://c@acc.dfs.core.windows.net/t") & places_of(
        "wasbs://c@ACC.blob.core.windows.net/t/"
    )
    for other in (
        "hdfs:///w/t",
        "viewfs://c/w/t",
        "webhdfs://nn:9870/w/t",
        "/w/t",
        "HDFS://NN/w/t",
    ):
        assert places_of("hdfs://nn:8020/w/t") & places_of(other), other
    assert not places_of("hdfs://nn:8020/w/t") & places_of("file:/w/t")
    assert places_of("gcs://b/t") & places_of("gs://b/t")


def test_relative_paths_lie_below_the_location() -> None:
    metadata = {
        **{"format-version": 4, "table-uuid": "u", "location": "s3://b/four"},
        "snapshots": [{"manifest-list": "metadata/root.parquet"}],
        "properties": {"write.data.path": "data"},
    }
    four = places_of_metadata("lake:db.four", "s3://b/four/metadata/1.json", metadata)
    assert {one.store for one in (*four.trees, *four.folders)} == {"s3://b"}
    assert {one.segments for one in four.folders} == {("four", "metadata")}
