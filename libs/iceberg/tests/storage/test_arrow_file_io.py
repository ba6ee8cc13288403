"""Places of clouds, as Arrow is to have them."""

from __future__ import annotations

import sys
from typing import Any

import pytest
from firnline_iceberg.storage.arrow_file_io import ATTEMPTS, LakeFileIO, PatientRetries
from pyiceberg.io.pyarrow import PyArrowFileIO

ABFSS = "abfss://lake@acc.dfs.core.windows.net/t/a.parquet"


def test_a_container_is_before_the_account() -> None:
    found = LakeFileIO({}).parse_location(ABFSS)
    assert found == ("abfss", "acc.dfs.core.windows.net", "lake/t/a.parquet")
    assert LakeFileIO({}).parse_location("s3://b/t")[2] == "b/t"


@pytest.mark.parametrize(
    ("given", "host", "said"),
    [
        ({}, "acc.dfs.core.windows.net", {"adls.account-name": "acc"}),
        (
            {"adls.sas-token.acc.dfs.core.windows.net": "?sig=1"},
            "acc.dfs.core.windows.net",
            {"adls.sas-token": "sig=1"},
        ),
        ({"adls.sas-token.other": "no"}, "acc.blob.core.windows.net", {"adls.sas-token": None}),
        (
            {},
            "acc.dfs.core.chinacloudapi.cn",
            {"adls.blob-storage-authority": ".blob.core.chinacloudapi.cn"},
        ),
        (
            {"adls.dfs-storage-authority": "127.0.0.1:1"},
            "acc.dfs.core.windows.net",
            {"adls.dfs-storage-authority": "127.0.0.1:1"},
        ),
    ],
)
def test_an_account_is_told_by_its_host(
    given: dict[str, str], host: str, said: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[dict[str, Any]] = []
    made = LakeFileIO(given)
    monkeypatch.setattr(
        PyArrowFileIO, "_initialize_azure_fs", lambda self: told.append(self.properties)
    )
    made._initialize_fs("abfss", host)
    assert {name: told[0].get(name) for name in said} == said


def test_a_store_that_is_busy_is_asked_ten_times() -> None:
    assert PatientRetries().max_attempts == ATTEMPTS == 10
    given = LakeFileIO({}).properties["s3.retry-strategy-impl"]
    assert given == "firnline_iceberg.storage.arrow_file_io.PatientRetries"


def test_hdfs_without_its_client_says_what_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "hdfs_native", None)
    with pytest.raises(OSError, match=r"tables on hdfs:// need .*firnline\[hdfs\]") as told:
        LakeFileIO({}).new_input("hdfs://nn:9000/t/a.parquet")
    assert "\n" not in str(told.value)


def test_a_user_of_hdfs_is_named_where_java_knows_it_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HADOOP_USER_NAME", raising=False)
    with pytest.raises(OSError, match="set HADOOP_USER_NAME=ann in its place"):
        LakeFileIO({"hdfs.user": "ann"}).new_input("hdfs://nn:9000/t/a.parquet")
