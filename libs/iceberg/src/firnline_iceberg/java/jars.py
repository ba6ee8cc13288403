"""Iceberg's jars on a Java class path: the runtime for Spark, and the bundles of cloud SDKs that a
catalog's storage needs. `firnline jars` fetches them.

| storage | bundle | needed where |
| --- | --- | --- |
| S3, SigV4 | iceberg-aws-bundle | `s3.*`, `io-impl` S3FileIO, a warehouse in `s3://`, SigV4 |
| GCS | iceberg-gcp-bundle | `gcs.*`, GCSFileIO, `gs://` |
| ADLS | iceberg-azure-bundle | `adls.*`, ADLSFileIO, `abfss://`, `wasbs://` |
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from firnline_domain.errors import Misconfigured

from firnline_iceberg.connection import properties as words
from firnline_iceberg.connection.configuration import Connections

VARIABLE = "FIRNLINE_ICEBERG_JAR"
MORE = "SPARK_DIST_CLASSPATH"  # as Spark's own launcher takes them
WAREHOUSES = ("warehouse", "default-base-location", "warehouse-location")


@dataclass(frozen=True)
class Bundle:
    """One cloud's SDK, with what says that it is needed."""

    artifact: str
    flag: str  # of `firnline jars`
    prefix: str  # of properties
    file_io: str
    schemes: tuple[str, ...]

    def is_needed(self, properties: Mapping[str, str]) -> bool:
        """Return True if a catalog's configuration needs it."""
        places = [properties.get(name, "") for name in WAREHOUSES]
        return (
            any(name.startswith(self.prefix) and value for name, value in properties.items())
            or properties.get("io-impl", "").endswith(self.file_io)
            or any(place.startswith(self.schemes) for place in places)
            or (self.flag == "--s3" and properties.get(words.SIGV4) == "true")
        )


BUNDLES = (
    Bundle("iceberg-aws-bundle", "--s3", "s3.", "S3FileIO", ("s3://", "s3a://", "s3n://")),
    Bundle("iceberg-gcp-bundle", "--gcs", "gcs.", "GCSFileIO", ("gs://",)),
    Bundle(
        "iceberg-azure-bundle",
        "--adls",
        "adls.",
        "ADLSFileIO",
        ("abfs://", "abfss://", "wasb://", "wasbs://"),
    ),
)


def class_path(
    given: str,
    configurations: Collection[Mapping[str, str]],
    environment: Mapping[str, str] = os.environ,
) -> str:
    """Return the jars of FIRNLINE_ICEBERG_JAR and the bundles that catalogs' configurations need.
    If none needs a bundle its tables still may, so all bundles in the same folder are added. Raises
    Misconfigured if a needed one is missing."""
    jars = jar_paths(given)
    needed = [one for one in BUNDLES if any(map(one.is_needed, configurations))]
    for bundle in needed or BUNDLES:
        if _is_among_jars(bundle, [*jars, *map(Path, environment.get(MORE, "").split(os.pathsep))]):
            continue
        found = next(_find_beside(bundle, jars[0], bool(needed)), None)
        if found is not None:
            jars.append(found)
        elif needed:
            raise Misconfigured(
                f"the catalog's storage needs {bundle.artifact}, and {VARIABLE} does not name it: "
                f"run `firnline jars {bundle.flag}` and set {VARIABLE} to what it prints"
            )
    return os.pathsep.join(map(str, jars))


def own_properties(connections: Connections) -> list[Mapping[str, str]]:
    """Return our properties of catalogs, before the catalogs have answered."""
    return [one.properties for one in connections.values()]


def jar_paths(given: str) -> list[Path]:
    """Parse FIRNLINE_ICEBERG_JAR. Raises Misconfigured if one is not there."""
    found = [Path(one) for one in given.split(os.pathsep) if one]
    for one in found:
        if not one.is_file():
            raise Misconfigured(
                f"{VARIABLE}: {one} is not a file; run `firnline jars` and set it to its output"
            )
    if not found:
        raise Misconfigured(f"{VARIABLE} is not set: run `firnline jars` and set it to its output")
    return found


def _is_among_jars(bundle: Bundle, jars: list[Path]) -> bool:
    """Return True if a jar's file name begins with the bundle's artifact."""
    return any(one.name.startswith(bundle.artifact) for one in jars)


def _find_beside(bundle: Bundle, jar: Path, is_needed: bool) -> Iterator[Path]:
    """Yield jars in the same folder; one that is needed also where a Maven repository has it. The
    newest first."""
    yield from sorted(jar.parent.glob(f"{bundle.artifact}-*.jar"), reverse=True)
    if is_needed and len(jar.parents) > 2:
        folder = jar.parents[2] / bundle.artifact
        yield from sorted(folder.glob(f"*/{bundle.artifact}-*.jar"), reverse=True)
