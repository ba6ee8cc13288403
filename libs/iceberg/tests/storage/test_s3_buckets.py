"""A bucket as it is shown."""

from __future__ import annotations

from firnline_iceberg.storage.file_io import make_file_io, s3_bucket


def test_its_keys_are_not_shown() -> None:
    given = {"s3.access-key-id": "AK1", "s3.secret-access-key": "cAnAry", "s3.region": "us-east-1"}
    found = s3_bucket(make_file_io(given, "s3://lake/t"), "s3://lake/t/data/")
    assert found is not None
    assert found[1] == "t/data"
    assert "lake" in repr(found)
    assert "cAnAry" not in repr(found)
