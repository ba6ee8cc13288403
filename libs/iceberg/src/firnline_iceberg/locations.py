"""Where a table's own files lie, whatever the spelling of a path.

Object stores take a path as it stands: `a//b` and `a/b` are two keys, `%2F` is three characters.
So only spellings that mean one place to every reader are accepted; the rest is nobody's.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from dataclasses import dataclass
from urllib.parse import unquote

from firnline_domain.identity import normal_path

from firnline_iceberg.naming import folder_of
from firnline_iceberg.tables import LoadedTable

_URI = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):(.*)", re.DOTALL)
_UNCLEAR = re.compile(r"[\x00-\x1f\x7f?#;\\]|^\s|\s$")  # readers differ on where such a path ends
_LONGEST = 4096
_LOCAL = frozenset({"", "file"})
_ALIASES = {"s3a": "s3", "s3n": "s3", "gcs": "gs", "abfs": "abfss", "wasb": "wasbs"}
CONTENT_PROPERTIES = (
    "write.data.path",
    "write.metadata.path",
    "write.object-storage.path",
    "write.folder-storage.path",
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
    if any(_climbs(segment) for segment in segments):
        return None
    return Address(_ALIASES.get(scheme, scheme), authority, segments)


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
        if found is None or folder is None or path.endswith("/") or "" in found.segments[-1:]:
            return False
        inside = [
            place
            for place in places
            if (found.within(place) and "" not in found.segments[len(place.segments) :])
            and (below or folder == place)
        ]
        return bool(inside) and (not found.is_local or self._stays(folder, inside, below))

    def _stays(self, folder: Address, inside: Iterable[Address], below: bool) -> bool:
        """Links are followed: a directory that is in the table by name alone is not."""
        real = _real(folder)
        roots = {_real(one) for one in inside}
        return any(real == root or (below and real.startswith(root + "/")) for root in roots)


def metadata_folders(table: LoadedTable) -> tuple[str, ...]:
    """Directories of the metadata files over time."""
    files = [table.metadata_location]
    files += [entry.metadata_file for entry in table.metadata.metadata_log]
    return tuple({normal_path(path): path for path in map(folder_of, files)}.values())


def _addresses(paths: Iterable[str]) -> tuple[Address, ...]:
    found = (address(path) for path in paths)
    # the root of a machine is no table's; that of a bucket may be
    return tuple(dict.fromkeys(one for one in found if one and (one.segments or not one.is_local)))


def _real(one: Address) -> str:
    return os.path.realpath(one.local)
