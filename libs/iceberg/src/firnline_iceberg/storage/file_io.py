"""Open a table's files with their settings and credentials: the one place.

They are the catalog's (its configuration, and what it says when it answers for a table) and our
own. A table's properties are its owner's: PyIceberg would take from them which class to import
(`py-io-impl`), and where to send signed requests (`s3.endpoint`, `s3.proxy-uri`), as whom. Java's
RESTCatalog does not look at them, and neither does this."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from pyarrow.fs import FileSystem
from pyiceberg.io import FileIO, InputFile, OutputFile, load_file_io
from pyiceberg.io.pyarrow import PyArrowFileIO

from firnline_iceberg.storage import s3_client
from firnline_iceberg.storage.arrow_file_io import LakeFileIO
from firnline_iceberg.storage.paths import resolve_file, resolve_folder
from firnline_iceberg.storage.s3_client import S3Bucket
from firnline_iceberg.storage.vended_credentials import VendedCredentials
from firnline_iceberg.storage.vended_file_io import VendedFileIO

LOCATION_PROVIDER = "write.location-provider.impl"
# Iceberg's Parquet writer copies every table property into Hadoop's configuration, of which file
# systems are made (`fs.s3a.endpoint`, `fs.file.impl`) and encryptors (`parquet.crypto.*`).
_OF_HADOOP = ("fs.", "dfs.", "hadoop.", "ipc.", "parquet.crypto.", "parquet.encryption.")


PY_IO_IMPL = "py-io-impl"
_SETTINGS = ("s3.", "adls.", "gcs.", "hdfs.", "oss.", "client.region", PY_IO_IMPL)


class NamedFileIO(FileIO):
    """One that the connection names, which reads a path in its own way: it is given none that could
    be read in another. Raises UnclearPath, everywhere."""

    def __init__(self, given: FileIO) -> None:
        super().__init__(given.properties)
        self._given = given

    def new_input(self, location: str) -> InputFile:
        resolve_file(location)
        return self._given.new_input(location)

    def new_output(self, location: str) -> OutputFile:
        resolve_file(location)
        return self._given.new_output(location)

    def delete(self, location: str | InputFile | OutputFile) -> None:
        resolve_file(location if isinstance(location, str) else location.location)
        self._given.delete(location)


@dataclass(frozen=True)
class TableStorage:
    """Settings that read and write a table's files, as a value that travels to executors."""

    settings: Mapping[str, str] = field(repr=False)
    location: str
    vended: VendedCredentials | None = field(default=None, repr=False)

    @classmethod
    def from_io(cls, io: FileIO, location: str) -> TableStorage:
        """Return the storage that a FileIO of this module opens."""
        settings = {name: str(one) for name, one in io.properties.items()}
        return cls(settings, location, getattr(io, "vended", None))

    def make_io(self) -> FileIO:
        """Create a FileIO. Raises ValueError."""
        return make_file_io(self.settings, self.location, self.vended)


def make_file_io(
    settings: Mapping[str, Any], location: str, vended: VendedCredentials | None = None
) -> FileIO:
    """Return the FileIO that reads and writes at `location`, a path or URI: Arrow's, unless the
    connection or the catalog names another class. `settings` are not a table's properties, and of a
    catalog's only those of storage are used: the rest is Firnline's identity. Raises ValueError."""
    ours = {name: one for name, one in settings.items() if name.startswith(_SETTINGS)}
    if PY_IO_IMPL in ours:
        return NamedFileIO(load_file_io(ours, location))
    if vended is None:
        return LakeFileIO(ours, location)
    return VendedFileIO(ours, vended, location)


def file_system(io: FileIO, location: str) -> tuple[FileSystem, str]:
    """Return Arrow's file system with the current keys, and the path in it, of a file or a folder:
    PyIceberg's FileIO cannot list. Raises UnclearPath."""
    if isinstance(io, VendedFileIO):
        arrow: PyArrowFileIO = io.arrow_io(io.vended.credential_for(location))
    else:
        arrow = io if isinstance(io, LakeFileIO) else LakeFileIO(io.properties)
    scheme, store, path = resolve_folder(location).for_arrow
    return arrow.fs_by_scheme(scheme, store), path


def s3_bucket(io: FileIO, location: str) -> tuple[S3Bucket, str] | None:
    """Return the bucket with the current keys, and the key in it, of a file or a folder; None: not
    on S3, or reachable only by Arrow. Raises UnclearPath."""
    settings = io.properties
    if isinstance(io, VendedFileIO) and (found := io.vended.credential_for(location)):
        settings = {**settings, **found.config}
    return s3_client.bucket_of(io, settings, location)


def unsafe_properties(
    properties: Iterable[str], location_providers: frozenset[str] = frozenset(), chosen: str = ""
) -> list[str]:
    """Return the names of a table's properties that would make Java load a class of the table
    owner's choice or send Firnline's credentials to another place. `chosen`: its LocationProvider,
    which is harmless if it is one of `location_providers`."""
    return sorted(
        name
        for name in properties
        if name.startswith(_OF_HADOOP)
        or (name == LOCATION_PROVIDER and chosen not in location_providers)
    )
