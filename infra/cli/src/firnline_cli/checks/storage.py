"""Checks the storage of tables: read, write, a large file in parts, delete; and the same by
Java."""

from __future__ import annotations

import re
import uuid
from collections.abc import Iterator
from typing import Any

from firnline_cli.checks.catalog import CatalogChecks, bucket_of
from firnline_cli.checks.clock import compare_clocks
from firnline_cli.checks.findings import Check, CheckAnswer, Failed, NotTried
from firnline_cli.checks.settings import OF_JAVA, Given

SMALL_BYTES, LARGE_BYTES = 1_000, 12 << 20  # S3's parts are of 5 MB at the least
PATIENCE_S = 60.0
S3_S = 10.0
DENIED = r"ACCESS_DENIED|AccessDenied|Forbidden|\b403\b|Permission denied|Read-only"
SCHEMES = {
    "s3": ("s3.access-key-id and s3.secret-access-key", "s3.endpoint and client.region"),
    "gs": ("gcs.oauth2.token, or the credentials of the environment,", "gcs.service.host"),
    "abfss": ("adls.account-key or adls.sas-token", "adls.account-name"),
}


class StorageChecks:
    """The checks of the storage of the tables that a catalog has listed."""

    def __init__(self, given: Given, catalog: CatalogChecks) -> None:
        self._given, self._catalog = given, catalog
        self.name = f"storage.{catalog.connection.name}"

    def checks(self) -> Iterator[Check]:
        """Yield the checks in their order."""
        name, loaded = self.name, (f"{self._catalog.name}.load",)
        read = (f"{name}.read",)
        yield Check(
            f"{name}.read", "read a table's metadata", self.read_metadata, loaded, PATIENCE_S
        )
        yield Check(
            f"{name}.write", "write, read, delete a file", self.write_small_file, read, PATIENCE_S
        )
        tried = f"write {LARGE_BYTES >> 20} MiB in parts, delete them"
        yield Check(f"{name}.parts", tried, self.write_large_file, (f"{name}.write",), PATIENCE_S)
        tried = "compare our clock with the storage's"
        yield Check(f"clock.{name}", tried, self.check_clock, loaded)
        if self._given.concerns(OF_JAVA):
            needs = (*loaded, "host.user", "host.java", "host.spark", "host.jar")
            tried = "load and read a table by Java, as worker and committer do"
            yield Check(
                f"java.{self._catalog.connection.name}", tried, self.load_by_java, needs, 90.0
            )

    def _loaded_tables(self) -> list[Any]:
        if not self._catalog.loaded:
            raise NotTried("no table is known")
        return self._catalog.loaded

    def read_metadata(self) -> str:
        """Read the metadata file, and the manifest list of the newest snapshot."""
        from firnline_domain.identity import MAIN

        files = 0
        for table in self._loaded_tables():
            with _Told(table, "read", self._section):
                with table.io.new_input(table.metadata_location).open() as source:
                    source.read()
                files += 1
                if table.head_id(MAIN) is not None:
                    table.manifests_of(table.head(MAIN))
                    files += 1
        return f"{files} files in {self._buckets()}"

    def write_small_file(self) -> str:
        """Write a file in one request."""
        for table in self._loaded_tables():
            self._write_read_delete(table, bytes(SMALL_BYTES))
        return f"in {self._buckets()}"

    def write_large_file(self) -> str:
        """Write a file in parts, as a data file is written."""
        for table in self._loaded_tables():
            self._write_read_delete(table, bytes(LARGE_BYTES))
        return f"in {self._buckets()}"

    def _write_read_delete(self, table: Any, content: bytes) -> None:
        """Write, read and delete a file below the table's data location, by a name that no data
        file has."""
        from firnline_iceberg.removal.removal import PROBE, remove_probe

        base = table.properties.get("write.data.path") or f"{table.metadata.location}/data"
        path = f"{base.rstrip('/')}/{PROBE}{uuid.uuid4().hex}"
        with _Told(table, "write", self._section), table.io.new_output(path).create() as sink:
            for start in range(0, len(content), 1 << 20):
                sink.write(content[start : start + (1 << 20)])
        with _Told(table, "read", self._section), table.io.new_input(path).open() as source:
            if source.read() != content:
                raise Failed("what was read is not what was written", "is a cache in between?")
        with _Told(table, "delete", self._section):
            remove_probe(table, path)

    def check_clock(self) -> CheckAnswer | str:
        """Compare our clock with that of an object store by HTTP. Another storage is not asked."""
        table = self._loaded_tables()[0]
        end_point = table.io.properties.get("s3.endpoint")
        if not end_point:
            raise NotTried("no s3.endpoint is given")
        return compare_clocks(lambda: _date_of(end_point))

    def load_by_java(self) -> str:
        """Load and read a table by the small JVM of the committer, with its class path."""
        from firnline_domain.errors import Misconfigured
        from firnline_domain.identity import TableName
        from firnline_iceberg.catalog_probe import remedy_of_java, root_cause
        from firnline_iceberg.java.api import count_manifests, rest_catalog
        from firnline_iceberg.java.jars import VARIABLE, class_path
        from firnline_iceberg.java.jvm import IcebergJvm
        from py4j.protocol import Py4JJavaError

        table: TableName = self._loaded_tables()[0].identity
        try:
            jars = class_path(self._given.told.iceberg_jar or "", [self._catalog.settings])
        except Misconfigured as error:
            how = f"set {VARIABLE} to what `firnline jars --s3` (--gcs, --adls) prints"
            raise Failed(error, how) from None
        with IcebergJvm(jars) as iceberg:
            try:
                catalog = rest_catalog(iceberg.jvm, self._catalog.connection)
                manifests = count_manifests(iceberg.jvm, catalog, table)
            except Py4JJavaError as error:
                text = root_cause(error.java_exception)
                raise Failed(text, remedy_of_java(text, self._catalog.connection)) from None
        return f"{table.dotted_name}: {manifests} manifests"

    @property
    def _section(self) -> str:
        return f"[catalogs.{self._catalog.connection.name}]"

    def _buckets(self) -> str:
        return ", ".join(bucket_of(one.metadata.location) for one in self._loaded_tables())


class _Told:
    """A context that turns errors of storage into a finding."""

    def __init__(self, table: Any, right: str, where: str) -> None:
        self._table, self._right, self._where = table, right, where

    def __enter__(self) -> None:
        """Do nothing."""

    def __exit__(self, _: object, error: BaseException | None, __: object) -> None:
        if error is None or isinstance(error, Failed) or not isinstance(error, Exception):
            return
        place = self._table.metadata.location
        text = f"{self._right} in {bucket_of(place)}: {error.__cause__ or error}"
        raise Failed(text, storage_remedy(text, place, self._right, self._where)) from None


def storage_remedy(text: str, place: str, right: str, where: str) -> str:
    """Return the remedy by the text of the storage's error: Arrow has no classes for it."""
    scheme = place.partition("://")[0].replace("s3a", "s3").replace("s3n", "s3")
    keys, endpoint = SCHEMES.get(scheme, ("the credentials", "the address"))
    if re.search(r"RequestTimeTooSkewed|REQUEST_EXPIRED|TooSkewed", text):
        return "set the clock of this host: signed requests hold for 15 minutes"
    if re.search(r"INVALID_ACCESS|InvalidAccessKeyId|SIGNATURE|InvalidToken|EXPIRED_TOKEN", text):
        return f"{keys} in {where} are not what the storage knows, or the catalog's have ended"
    if right == "read" and re.search(DENIED, text):  # a HEAD is refused without a reason
        return f"{keys} in {where} are not, or no longer, the storage's; or they may not read there"
    if re.search(DENIED, text):
        return f"give the credentials of {where} the right to {right} there, or the catalog its own"
    if re.search(r"NO_SUCH_BUCKET|NoSuchBucket|does not exist|No such file", text):
        return f"the bucket, or the file, is not there: was it moved? See {endpoint} in {where}"
    if re.search(r"301|MOVED|PermanentRedirect|AuthorizationHeaderMalformed|region", text):
        return f"{endpoint} in {where} are those of the bucket"
    if re.search(r"NETWORK_CONN|Couldn't connect|resolve host|refused|timed? ?out", text, re.I):
        return f"{endpoint} in {where} are not reached from here"
    if scheme in ("file", "") or place.startswith("/"):
        return "this host and its user see the same folder as the writers do"
    return f"see {endpoint} and {keys} in {where}"


def _date_of(end_point: str) -> float:
    """Return the storage's time in seconds since 1970. A refusal also has one. Raises Failed,
    NotTried."""
    import requests
    from firnline_iceberg.connection.call_metrics import parse_date

    try:
        found = parse_date(requests.get(end_point, timeout=S3_S).headers)
    except requests.RequestException as error:
        raise Failed(error, "storage.*.read says more") from None
    if found is None:
        raise NotTried("its answers have no date")
    return found
