"""With what settings and credentials a table's files are read and written: the one place.

They are the catalog's (its configuration, and what it says when it answers for a table) and our
own. A table's properties are its owner's: PyIceberg would take from them which class to import
(`py-io-impl`), and where to send signed requests (`s3.endpoint`, `s3.proxy-uri`), as whom. Java's
RESTCatalog does not look at them, and neither does this.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from firnline_domain.errors import StorageRefused, StorageUnreachable
from pyiceberg.io import FileIO, load_file_io

LOCATION_PROVIDER = "write.location-provider.impl"
# Iceberg's Parquet writer copies every table property into Hadoop's configuration, of which file
# systems are made (`fs.s3a.endpoint`, `fs.file.impl`) and encryptors (`parquet.crypto.*`).
_DENIED = re.compile(
    r"ACCESS_DENIED|INVALID_ACCESS_KEY|InvalidAccessKeyId|SIGNATURE_DOES_NOT|EXPIRED_T|\b40[13]\b"
)
_BUCKET = re.compile(r"bucket '[^']*'")
_OF_HADOOP = ("fs.", "dfs.", "hadoop.", "ipc.", "parquet.crypto.", "parquet.encryption.")


def file_io(settings: Mapping[str, Any], location: str) -> FileIO:
    """What reads and writes at `location`, a path or URI. `settings` are not a table's properties.
    Raises ValueError."""
    return load_file_io(dict(settings), location)


def unreachable(what: str, error: OSError) -> StorageUnreachable | StorageRefused:
    """What storage has answered to `what`: Arrow has no classes for who has refused."""
    text = f"{what}: {error}"
    if isinstance(error, PermissionError) or _DENIED.search(str(error)):
        return StorageRefused(f"{text}; give our keys this right", _place(str(error), what))
    return StorageUnreachable(text)


def _place(text: str, what: str) -> str:
    bucket = _BUCKET.search(text)
    return bucket[0] if bucket else what


def unsafe_properties(
    properties: Iterable[str], location_providers: frozenset[str] = frozenset(), chosen: str = ""
) -> list[str]:
    """Names among a table's that would make Java load a class of the owner's choice or send our
    credentials elsewhere. `chosen`: its LocationProvider, which is no harm if it is one of
    `location_providers`."""
    return sorted(
        name
        for name in properties
        if name.startswith(_OF_HADOOP)
        or (name == LOCATION_PROVIDER and chosen not in location_providers)
    )
