"""Which bundles a catalog's storage needs, and where they are found."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from firnline_domain.errors import Misconfigured
from firnline_iceberg.java.jars import BUNDLES, class_path


@pytest.fixture
def jar(tmp_path: Path) -> Path:
    path = tmp_path / "iceberg-spark-runtime.jar"
    path.touch()
    return path


@pytest.mark.parametrize(
    ("properties", "needed"),
    [
        ({"uri": "http://c"}, []),
        ({"uri": "http://c", "warehouse": "prod"}, []),
        ({"s3.endpoint": "http://s"}, ["--s3"]),
        ({"warehouse": "s3a://b/w"}, ["--s3"]),
        ({"default-base-location": "s3://b/w"}, ["--s3"]),
        ({"io-impl": "org.apache.iceberg.aws.s3.S3FileIO"}, ["--s3"]),
        ({"rest.sigv4-enabled": "true"}, ["--s3"]),
        ({"gcs.project-id": "p"}, ["--gcs"]),
        ({"warehouse": "gs://b"}, ["--gcs"]),
        ({"adls.account-name": "a", "s3.endpoint": "x"}, ["--s3", "--adls"]),
        ({"warehouse": "abfss://c@a.dfs.core.windows.net/w"}, ["--adls"]),
        ({"warehouse": "wasbs://c@a/w"}, ["--adls"]),
    ],
)
def test_a_bundle_is_needed_by_what_the_catalog_says(
    properties: dict[str, str], needed: list[str]
) -> None:
    assert [one.flag for one in BUNDLES if one.is_needed(properties)] == needed


def test_a_bundle_is_found_beside_the_jar(jar: Path, tmp_path: Path) -> None:
    bundle = tmp_path / "iceberg-aws-bundle-1.12.0.jar"
    bundle.touch()
    found = class_path(str(jar), [{"s3.endpoint": "x"}], {})
    assert found == f"{jar}{os.pathsep}{bundle}"
    assert class_path(found, [{"s3.endpoint": "x"}], {}) == found  # once is enough
    assert class_path(str(jar), [{}], {}) == found  # perhaps a table says more


def test_a_bundle_is_found_as_maven_lays_it_out(tmp_path: Path) -> None:
    jar = tmp_path / "iceberg-spark-runtime-4.1_2.13" / "1.12.0" / "iceberg-spark-runtime.jar"
    bundle = tmp_path / "iceberg-gcp-bundle" / "1.11.0" / "iceberg-gcp-bundle-1.11.0.jar"
    for one in (jar, bundle):
        one.parent.mkdir(parents=True)
        one.touch()
    assert class_path(str(jar), [{"warehouse": "gs://b"}], {}).endswith(str(bundle))
    assert class_path(str(jar), [{}], {}) == str(jar)


def test_a_bundle_that_spark_has_is_not_asked_for(jar: Path) -> None:
    given = {"SPARK_DIST_CLASSPATH": "/opt/x.jar:/opt/iceberg-aws-bundle-1.12.0.jar"}
    assert class_path(str(jar), [{"s3.endpoint": "x"}], given) == str(jar)


def test_what_is_missing_is_said_with_its_remedy(jar: Path) -> None:
    with pytest.raises(Misconfigured, match=r"needs iceberg-aws-bundle.*firnline jars --s3"):
        class_path(str(jar), [{"s3.endpoint": "x"}], {})
    with pytest.raises(Misconfigured, match=r"none.jar is not a file; run `firnline jars`"):
        class_path("/none.jar", [{}], {})
    with pytest.raises(Misconfigured, match="FIRNLINE_ICEBERG_JAR is not set"):
        class_path("", [{}], {})
