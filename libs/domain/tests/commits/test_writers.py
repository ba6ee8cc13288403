"""Who is known to write v3, by the summaries that engines leave."""

from __future__ import annotations

import pytest
from firnline_domain.commits.writers import writer_of

JAVA = "Apache Iceberg 1.{}.0 (commit 7b1a1b0d)"


@pytest.mark.parametrize(
    ("minor", "more", "ready"),
    [
        (10, {"engine-name": "spark", "engine-version": "4.0.1"}, True),
        (9, {"engine-name": "spark", "engine-version": "3.5.5"}, False),
        (10, {"engine-name": "flink", "engine-version": "2.0"}, False),
        (10, {"flink.job-id": "f00"}, False),
        (11, {"flink.job-id": "f00"}, True),
        (12, {}, True),
    ],
)
def test_the_library_says_it_and_flink_is_later(
    minor: int, more: dict[str, str], ready: bool
) -> None:
    found = writer_of({"iceberg-version": JAVA.format(minor), **more})
    assert found.writes_v3 == ready
    assert f"1.{minor}" in found.label


def test_who_does_not_say_it_is_not_known() -> None:
    for text in ("", "Apache Iceberg unspecified", "Apache Iceberg ².1.0", "1.12.0"):
        assert not writer_of({"iceberg-version": text}).writes_v3
    assert writer_of({}).label == "a writer that does not say what it is"
    assert writer_of({"trino_query_id": "q"}).label == "trino"


def test_a_later_major_version_is_later() -> None:
    assert writer_of({"iceberg-version": "Apache Iceberg 2.0.0 (commit x)"}).writes_v3
