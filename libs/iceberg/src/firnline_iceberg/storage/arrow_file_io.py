"""Arrow's files of a lake, where PyIceberg's way to them falls short."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

from firnline_domain.errors import TaskRefused
from firnline_domain.records.results import METADATA_UNREADABLE
from pyarrow.fs import AwsStandardS3RetryStrategy, FileSystem, GcsFileSystem
from pyiceberg.io.pyarrow import PyArrowFileIO, _import_retry_strategy

from firnline_iceberg.storage.hdfs import HADOOP, hadoop_files
from firnline_iceberg.storage.paths import parse_address, resolve_file

RETRIES = "s3.retry-strategy-impl"
ATTEMPTS = 10  # with pauses of up to 20 s, at random; three are over within a second
GOOGLE = ("gs", "gcs")
AZURE = ("abfs", "abfss", "wasb", "wasbs")
_SETTINGS = dict.fromkeys(GOOGLE, "gcs.") | dict.fromkeys(AZURE, "adls.")
ACCOUNT, NO_AUTH = "adls.account-name", "gcs.no-auth"


class PatientRetries(AwsStandardS3RetryStrategy):  # type: ignore[misc]
    """A store that says 503 SlowDown is asked again ever more rarely."""

    def __init__(self) -> None:
        super().__init__(max_attempts=ATTEMPTS)


class LakeFileIO(PyArrowFileIO):
    """PyIceberg's, for every scheme: for `abfss://` it would take another library first."""

    def __init__(self, properties: Mapping[str, Any], location: str | None = None) -> None:
        """Create the FileIO. `location`: of the table; None = its files may be in any store."""
        found = parse_address(location) if location else None
        self._home = None if found is None else found.scheme
        patient = f"{PatientRetries.__module__}.{PatientRetries.__name__}"
        super().__init__({RETRIES: patient, **properties})

    @staticmethod
    def parse_location(location: str, _properties: Any = None) -> tuple[str, str, str]:
        """Parse the location of a file, in place of PyIceberg's, which cuts it at `#`, `?` and `;`.
        Raises UnclearPath."""
        return resolve_file(location).for_arrow

    def _sas_tokens(self, account: str) -> dict[str, str]:
        """Return the tokens of an account, as catalogs hand them out: the account, or its host, is
        in the name."""
        named = f"adls.sas-token.{account}"
        found = [one for name, one in self.properties.items() if name.startswith(named)]
        return {"adls.sas-token": str(found[0]).removeprefix("?")} if found else {}

    def _initialize_s3_fs(self, netloc: str | None) -> FileSystem:
        """Create a file system that writes an object below 10 MB by one request, not three: an
        upload begins when there is a part to send. `close` raises if the store refuses."""
        made = super()._initialize_s3_fs(netloc)
        again, (given,) = made.__reduce__()  # PyIceberg has no word for the option
        patience = _import_retry_strategy(self.properties[RETRIES])
        given |= {"allow_delayed_open": True} | ({"retry_strategy": patience} if patience else {})
        return again(given)

    def _refuse_unknown_store(self, scheme: str) -> None:
        """Refuse a path in a store without settings: any writer can choose a path, and for Google
        and Azure without settings Arrow searches for credentials for a quarter of an hour, in which
        all other tables would wait. Raises TaskRefused."""
        settings = _SETTINGS.get(scheme)
        if settings is None or self._home is None or _SETTINGS.get(self._home) == settings:
            return
        if not any(name.startswith(settings) for name in self.properties):
            text = (
                f"a path of the table is in {scheme}://, its location in {self._home or 'file'}://"
                f", and the catalog has no setting {settings}* for such a storage"
            )
            raise TaskRefused(METADATA_UNREADABLE, text)

    def _initialize_fs(self, scheme: str, netloc: str | None = None) -> FileSystem:
        self._refuse_unknown_store(scheme)
        if scheme in AZURE and netloc and "." in netloc:
            account, _, host = netloc.partition(".")
            found = {ACCOUNT: account, **self.properties, **self._sas_tokens(account)}
            for kind in ("blob", "dfs"):  # of the public cloud, of sovereign ones, of OneLake
                place = host.replace("dfs.", f"{kind}.").replace("blob.", f"{kind}.")
                found.setdefault(f"adls.{kind}-storage-authority", f".{place}")
            return PyArrowFileIO(found)._initialize_fs(scheme, netloc)
        if scheme in GOOGLE and str(self.properties.get(NO_AUTH)).lower() == "true":
            there = urlsplit(str(self.properties.get("gcs.service.host", "")))
            return GcsFileSystem(
                anonymous=True,
                scheme=there.scheme or None,
                endpoint_override=there.netloc or None,
            )
        if scheme in HADOOP:
            return hadoop_files(scheme, netloc, self.properties)
        return super()._initialize_fs(scheme, netloc)
