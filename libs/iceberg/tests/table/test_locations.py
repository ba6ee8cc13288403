"""What lies in a table's own locations, in whatever spelling."""

from __future__ import annotations

from pathlib import Path

import pytest
from firnline_iceberg.storage.paths import parse_address
from firnline_iceberg.table.locations import Locations


def locations(*content: str, metadata: str = "") -> Locations:
    found = [one for one in map(parse_address, content) if one]
    beside = [one for one in [parse_address(metadata)] if one]
    return Locations(tuple(found), tuple(beside))


@pytest.mark.parametrize(
    "path",
    [
        "s3://b/wh/tbl/data/x",
        "s3a://b/wh/tbl/x",
        "S3://b/wh/tbl/data/p=a%2Fb/x",
        "s3://b/wh/tbl/data/p=..%2F..%2Fetc/x",  # a partition's value is one name
        "s3://b/wh/tbl/data/a b/ü/x",
    ],
)
def test_inside(path: str) -> None:
    assert locations("s3://b/wh/tbl/").contains(path)


@pytest.mark.parametrize(
    "path",
    [
        "",
        "x",
        "/wh/tbl/data/x",
        "s3://b/wh/tbl2/x",
        "s3://b/wh/tbl",
        "s3://b/wh/tbl/",
        "s3://b/wh/tbl/data/",
        "s3://other/wh/tbl/data/x",
        "s3://u@b/wh/tbl/data/x",
        "s3:/wh/tbl/data/x",
        "gs://b/wh/tbl/data/x",
        "s3://b//wh/tbl/data/x",
        "s3://b/wh/tbl//data/x",
        "s3://b/wh/tbl/../tbl2/x",
        "s3://b/wh/tbl/./x",
        "s3://b/wh/tbl/%2e%2e/tbl2/x",
        "s3://b/wh/tbl/%252e%252E/tbl2/x",
        "s3://b/wh/tbl/a%2f..%2f..%2ftbl2/x",
        "s3://b/wh/tbl/data/x?versionId=1",
        "s3://b/wh/tbl/data/x#y",
        "s3://b/wh/tbl/data/x;y",
        "s3://b/wh/tbl/..\\tbl2/x",
        " s3://b/wh/tbl/data/x",
        "s3://b/wh/tbl/da\nta/x",
        "s3://b/wh/tbl/data/\x00x",
        "s3://b/wh/tbl/data/\ud800x",
        "s3://b/wh/tbl/" + "d/" * 3000 + "x",
    ],
)
def test_outside_or_unclear(path: str) -> None:
    assert not locations("s3://b/wh/tbl").contains(path)


def test_local_paths(tmp_path: Path) -> None:
    table, other = tmp_path / "tbl", tmp_path / "tbl2"
    (table / "data").mkdir(parents=True)
    other.mkdir()
    (table / "link").symlink_to(other)
    own = locations(f"file:{table}")
    assert own.contains(f"file://{table}/data/x")
    assert own.contains(f"file:{table}//data/x")
    assert own.contains(f"file://{table}/not/there/yet/x")
    assert not own.contains(f"file://{table}/link/x")
    assert not own.contains(f"file://{table}/data/../../tbl2/x")
    assert not own.contains(f"file://localhost{table}/data/x")
    assert not own.contains(f"{table}/data/x")  # FileIOs differ on what that is
    assert locations(f"{table}").contains(f"{table}/data/x")


def test_nothing_behind_a_link_is_a_tables(tmp_path: Path) -> None:
    """Nor where the link is above the location, or the location itself, or the file."""
    (tmp_path / "real/tbl/data").mkdir(parents=True)
    (tmp_path / "real/tbl/data/x").write_bytes(b"x")
    (tmp_path / "real/tbl/data/y").symlink_to(tmp_path / "real/tbl/data/x")
    (tmp_path / "link").symlink_to(tmp_path / "real")
    (tmp_path / "tbl").symlink_to(tmp_path / "real/tbl")
    assert locations(f"file:{tmp_path}/real/tbl").contains(f"file:{tmp_path}/real/tbl/data/x")
    for place in ("link/tbl", "tbl"):
        own = locations(f"file:{tmp_path}/{place}", metadata=f"file:{tmp_path}/{place}/data")
        assert not own.contains(f"file:{tmp_path}/{place}/data/x")
        assert not own.is_beside_metadata(f"file:{tmp_path}/{place}/data/x")
    assert not locations(f"file:{tmp_path}/real/tbl").contains(f"file:{tmp_path}/real/tbl/data/y")


def test_the_root_of_a_machine_is_no_tables(tmp_path: Path) -> None:
    assert parse_address("file:///") is not None
    (tmp_path / "x").mkdir()
    assert not Locations((), ()).contains("file:///etc/passwd")


def test_beside_metadata_is_not_below() -> None:
    own = locations("s3://b/t", metadata="s3://b/t/metadata")
    assert own.is_beside_metadata("s3://b/t/metadata/x.json")
    assert not own.is_beside_metadata("s3://b/t/metadata/below/x.json")
    assert not own.is_beside_metadata("s3://b/t/metadata2/x.json")
