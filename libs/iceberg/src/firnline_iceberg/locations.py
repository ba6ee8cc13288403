"""What a recorded path means, and where a table's own files lie: the one reader of paths.

Libraries read a path in different ways: PyIceberg cuts it at `#`, `?` and `;`, Hadoop takes out
`//` and `..`, object stores take all as it stands. So only spellings that mean one place to every
reader are accepted (`address`), and libraries are given the store and the key, never the text. The
rest is nobody's: it is neither read, written, moved nor deleted.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import unquote

from firnline_domain.errors import TaskRefused
from firnline_domain.identity import normal_path

from firnline_iceberg.local_files import link_on
from firnline_iceberg.naming import folder_of

if TYPE_CHECKING:  # the storage of a loaded table asks this module
    from firnline_iceberg.tables import LoadedTable

_URI = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):(.*)", re.DOTALL)
_UNCLEAR = re.compile(r"[\x00-\x1f\x7f?#;\\]|^\s|\s$")  # readers differ on where such a path ends
_LONGEST = 4096
_DOUBTFUL = re.compile(r"\.\.|%(25)*2e|[^:/]//|[#?;\\\x00-\x20\x7f]", re.IGNORECASE)
_LOCAL = frozenset({"", "file"})
_WITHOUT_STORE = frozenset({"", "file", "hdfs", "viewfs"})  # their keys do not begin with a bucket
_ALIASES = {"s3a": "s3", "s3n": "s3", "gcs": "gs", "abfs": "abfss", "wasb": "wasbs"}
CONTENT_PROPERTIES = (
    "write.data.path",
    "write.metadata.path",
    "write.object-storage.path",
    "write.folder-storage.path",
)


class UnclearPath(TaskRefused):
    """A path that two readers would take for two places."""

    def __init__(self, path: str) -> None:
        super().__init__(
            "unclear_path",
            f"path {path[:400]!r}: Iceberg's readers would look in different places; move the file "
            "to a path without `#`, `?`, `;`, `\\`, `//`, `..` and control characters",
        )


@dataclass(frozen=True)
class Address:
    """A path taken apart. Of local files, empty segments are left out."""

    scheme: str
    authority: str
    segments: tuple[str, ...]

    @property
    def is_local(self) -> bool:
        """On this machine, where links may lead elsewhere."""
        return self.scheme in _LOCAL

    @property
    def local(self) -> str:
        """The path for the operating system."""
        return "/" + "/".join(self.segments)

    @property
    def key(self) -> str:
        """The path in its bucket or container, without a slash in front."""
        return "/".join(self.segments)

    @property
    def for_arrow(self) -> tuple[str, str, str]:
        """Scheme, host or bucket, and the path that Arrow's file system of these takes. Azure's
        `container@account.host` is the container in front of the path."""
        if self.scheme in _WITHOUT_STORE:
            return self.scheme or "file", self.authority, f"/{self.key}"
        container, _, host = self.authority.rpartition("@")
        store = container or host
        return self.scheme, host, f"{store}/{self.key}" if self.segments else store

    def within(self, other: Address) -> bool:
        """Strictly below `other`, segment by segment: `tbl2` is not within `tbl`."""
        length = len(other.segments)
        return (
            (self.scheme, self.authority) == (other.scheme, other.authority)
            and len(self.segments) > length
            and self.segments[:length] == other.segments
        )


def address(path: str) -> Address | None:
    """None for a path that is relative, climbs, or may be read in more than one way."""
    if not path or len(path) > _LONGEST or _UNCLEAR.search(path) or not _is_text(path):
        return None
    if path.startswith("//"):  # Hadoop takes what follows for a host
        return None
    found = _URI.fullmatch(path)
    scheme, rest = (found[1].lower(), found[2]) if found else ("", path)
    authority = ""
    if scheme and rest.startswith("//"):
        authority, slash, below = rest[2:].partition("/")
        rest = slash + below
    if scheme in _LOCAL and (authority or not rest.startswith("/")):
        return None
    if not authority and not rest.startswith("/"):
        return None
    segments = tuple(rest.rstrip("/").split("/")[1:])
    if scheme in _LOCAL:
        segments = tuple(segment for segment in segments if segment)
    if any(not segment or _climbs(segment) for segment in segments):
        return None
    return Address(_ALIASES.get(scheme, scheme), authority, segments)


def is_clear(path: str) -> bool:
    """Whether a path is read in one way; asked of all files of a table: 0.5 us, and `address` takes
    8."""
    return not _DOUBTFUL.search(path) or address(path) is not None


def resolve_file(path: str) -> Address:
    """Where a file lies of which this path is recorded. Raises UnclearPath."""
    found = address(path)
    if found is None or not found.segments or path.endswith("/"):
        raise UnclearPath(path)
    return found


def resolve_folder(path: str) -> Address:
    """As `resolve_file`, of a directory or a beginning of keys. Raises UnclearPath."""
    found = address(path)
    if found is None:
        raise UnclearPath(path)
    return found


def _is_text(path: str) -> bool:
    try:
        path.encode()
    except UnicodeEncodeError:
        return False
    return True


def _climbs(segment: str) -> bool:
    """Also for who decodes it, however often. Values of partitions (`p=..%2F`) are names."""
    if "=" in segment:
        return False
    while (decoded := unquote(segment)) != segment:
        segment = decoded
    return any(one in (".", "..") for one in segment.split("/"))


@dataclass(frozen=True)
class Locations:
    """Directories of one table, as its metadata has them; its owner can set most of them."""

    content: tuple[Address, ...]  # whatever is below is the table's
    metadata: tuple[Address, ...]  # metadata files lie in these, not below

    @classmethod
    def of(cls, table: LoadedTable) -> Locations:
        """Of a table as it was loaded."""
        properties = table.properties
        named = [properties[key] for key in CONTENT_PROPERTIES if key in properties]
        content = _addresses([table.metadata.location, *named])
        return cls(content, _addresses(metadata_folders(table)))

    def holds(self, path: str) -> bool:
        """Whether a data, delete or metadata file at this path would be the table's."""
        return self._is_in(path, self.content, below=True)

    def beside_metadata(self, path: str) -> bool:
        """Whether it lies in a directory of the table's metadata files, not below."""
        return self._is_in(path, self.metadata, below=False)

    def _is_in(self, path: str, places: tuple[Address, ...], below: bool) -> bool:
        found, folder = address(path), address(folder_of(path))
        if found is None or folder is None or path.endswith("/"):
            return False
        if not any(found.within(one) and (below or folder == one) for one in places):
            return False
        return not found.is_local or link_on(found.local) is None


def metadata_folders(table: LoadedTable) -> tuple[str, ...]:
    """Directories of the metadata files over time."""
    files = [table.metadata_location]
    files += [entry.metadata_file for entry in table.metadata.metadata_log]
    return tuple({normal_path(path): path for path in map(folder_of, files)}.values())


def _addresses(paths: Iterable[str]) -> tuple[Address, ...]:
    found = (address(path) for path in paths)
    # the root of a machine is no table's; that of a bucket may be
    return tuple(dict.fromkeys(one for one in found if one and (one.segments or not one.is_local)))


def refuse_links(table: LoadedTable) -> None:
    """Raises TaskRefused where the table's location, or the folder of its metadata, is reached
    through a link of this machine: nothing below is surely the table's."""
    for path in (table.metadata.location, folder_of(table.metadata_location)):
        found = address(path)
        if found and found.is_local and (link := link_on(found.local)) is not None:
            text = (
                f"{path}: {link} is a link to {os.path.realpath(link)}, and files behind it can be "
                "another table's; set a location without links"
            )
            raise TaskRefused("link_in_location", text)
