"""Find other tables of the known catalogs that may have this table's files.

A uuid is not one table's, nor is a folder: `register_table`, restored catalogs and `assign-uuid`
give two tables one uuid, and any writer may put a table below, above or into another one's
location. Before anything is removed, moved or withdrawn the catalogs are asked for all their
tables. What an event, a record or a list of objects says of other tables proves nothing here.

The cost: one listing per namespace, and one load per table, for each action: a name may be another
table's by now, and a table may have another location. Where listing takes longer than
`QUICK_LISTING_S`, the names are used for 20 times as long, or for `NAMES_AGE_S`. Where loading all
tables takes longer than `QUICK_LOADS_S`, what they say is used for 100 times as long, or for
`FACTS_AGE_S`: loads take a hundredth of the time, whatever the number of tasks. A name that is new
is loaded at once."""

from __future__ import annotations

import os
import re
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import chain
from typing import Any, Final, Protocol
from urllib.parse import unquote
from weakref import WeakKeyDictionary

import requests
from firnline_domain.errors import CatalogRefused, RetryLater, TaskRefused
from firnline_domain.identity import TableName
from firnline_domain.records.parts.sharing import SharingRefusal

from firnline_iceberg.connection.properties import UNREADABLE
from firnline_iceberg.storage.paths import folder_of
from firnline_iceberg.table.loaded_table import LoadedTable, TableGone

NAMES_AGE_S: Final = 60.0
QUICK_LISTING_S: Final = 1.0
NAMES_SHARE: Final = 20  # of a slow listing's time, until the next one
FACTS_AGE_S: Final = 3_600.0
QUICK_LOADS_S: Final = 0.2
FACTS_SHARE: Final = 100
AT_ONCE: Final = 4  # loads; each thread has a client of its own
FEW: Final = 8  # tables that are loaded without other threads
_URI = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):(.*)", re.DOTALL)
_LOCAL = frozenset({"", "file"})
_AZURE = {"abfs": "azure", "abfss": "azure", "wasb": "azure", "wasbs": "azure"}
# The host may be left out, or be an alias.
_HDFS = dict.fromkeys(("hdfs", "viewfs", "webhdfs", "swebhdfs"), "hdfs")
_ALIASES = {"s3a": "s3", "s3n": "s3", "gcs": "gs", **_AZURE, **_HDFS}


class NamedTables(Protocol):
    """`catalog_client.Tables` of one catalog and prefix."""

    @property
    def catalog_path(self) -> str:
        """Return `TableName.catalog_path`. Raises RetryLater."""

    @property
    def address(self) -> tuple[str, str]:
        """The catalog's URI and prefix: where one name is one table. Raises RetryLater."""

    @property
    def unreadable_tables(self) -> str:
        """Names, comma-separated, that the operator declares to share no file."""

    def table_names(self) -> Iterator[tuple[str, ...]]:
        """Yield all tables. Raises RetryLater."""

    def metadata_json(self, name: tuple[str, ...]) -> tuple[str, Mapping[str, Any]]:
        """Return the path of a table's metadata file, and the metadata in the catalog's answer,
        with all snapshots. Raises TableGone, RetryLater, TaskRefused."""


class KnownCatalogs(Protocol):
    """`catalog_client.Tables`, `catalogs.CatalogTables`."""

    def known_catalogs(self, table: TableName) -> Sequence[NamedTables]:
        """Return all configured catalogs, with the one of the table. Raises RetryLater,
        TaskRefused."""


@dataclass(frozen=True)
class Folder:
    """A folder of some store, one spelling for each."""

    store: str
    segments: tuple[str, ...]

    def contains(self, other: Folder) -> bool:
        """Return True if it is the other folder, or lies above it."""
        length = len(self.segments)
        return self.store == other.store and other.segments[:length] == self.segments


@dataclass(frozen=True)
class TablePlaces:
    """Places of one table by its metadata. `trees`: folders of which all below is its own;
    `folders`: those in which its metadata names single files."""

    name: str  # `lake:shop.orders`
    uuid: str
    trees: frozenset[Folder]
    folders: frozenset[Folder]

    def common_place(self, other: TablePlaces) -> Folder | None:
        """Return a folder in which a file may belong to either table, else None."""
        for one in self.trees:
            for two in other.trees:
                if one.contains(two) or two.contains(one):
                    return two
        found = chain(
            (two for one in self.trees for two in other.folders if one.contains(two)),
            (one for one in self.folders for two in other.trees if two.contains(one)),
            self.folders & other.folders,
        )
        return next(iter(found), None)


@dataclass(frozen=True)
class Neighbour:
    """Another table that may have files of this one, and by what."""

    name: str
    reason: SharingRefusal
    detail: str


def places_of(path: str) -> frozenset[Folder]:
    """Return the folders that a reader may resolve a path to: more than one if readers differ.
    Links of local files are followed."""
    found = _URI.fullmatch(path.strip())
    scheme, rest = (found[1].lower(), found[2]) if found else ("", path.strip())
    if scheme in _LOCAL:
        if rest.startswith("//"):
            rest = "/" + rest[2:].partition("/")[2]  # file://localhost/x
        local = frozenset(_local_folder(one) for one in (rest, unquote(rest)))
        # Without a scheme it is Hadoop's default store for some readers.
        return local if scheme else local | places_of(f"hdfs:///{rest}")
    authority, _, below = rest.removeprefix("//").partition("/")
    store = f"{_ALIASES.get(scheme, scheme)}://{_normal_authority(scheme, authority)}"
    segments = [one for one in below.split("/") if one]
    resolved = list[str]()
    for one in segments:
        if one == "..":
            del resolved[-1:]
        elif one != ".":
            resolved.append(one)
    return frozenset({Folder(store, tuple(segments)), Folder(store, tuple(resolved))})


def _normal_authority(scheme: str, authority: str) -> str:
    if scheme in _HDFS:
        return ""
    if scheme in _AZURE:  # the same account by its blob and its dfs host
        container, _, host = authority.partition("@")
        return f"{container}@{host.partition('.')[0].lower()}"
    return authority


def _local_folder(path: str) -> Folder:
    text = path.replace("\0", "").encode(errors="replace").decode()  # half a surrogate pair
    real = os.path.realpath(text)
    return Folder("file://", tuple(one for one in real.split("/") if one))


def places_of_metadata(name: str, metadata_file: str, metadata: Mapping[str, Any]) -> TablePlaces:
    """Read the places in a table's metadata as JSON. From format version 4 on, a path may be
    relative to the location. Raises ValueError if it names no uuid or location."""
    uuid, location = metadata.get("table-uuid"), metadata.get("location")
    if not isinstance(uuid, str) or not isinstance(location, str) or not location:
        raise ValueError("its metadata names no uuid, or no location")
    properties = metadata.get("properties") or {}
    paths = [text for key, text in properties.items() if _is_path_property(key) and text]
    files = [metadata_file, *_named_files(metadata)]
    trees = {location, *(_resolve_path(location, one) for one in paths)}
    folders = {folder_of(_resolve_path(location, one)) for one in files if one}
    return TablePlaces(name, uuid.lower(), _all_folders(trees), _all_folders(folders))


def _resolve_path(location: str, path: str) -> str:
    is_relative = not path.startswith("/") and _URI.fullmatch(path) is None
    return f"{location}/{path}" if is_relative else path


def _is_path_property(key: str) -> bool:
    """Return True for `write.data.path`, `write.metadata.path`, `write.object-storage.path` ..."""
    return key.startswith("write.") and key.endswith(".path")


def _named_files(metadata: Mapping[str, Any]) -> Iterator[str]:
    for one in metadata.get("metadata-log") or ():
        yield str(one.get("metadata-file") or "")
    for one in metadata.get("snapshots") or ():
        yield str(one.get("manifest-list") or "")
        yield from map(str, one.get("manifests") or ())  # of tables of format version 1
    for kind in ("statistics", "partition-statistics"):
        for one in metadata.get(kind) or ():
            yield str(one.get("statistics-path") or "")


def _all_folders(paths: Iterable[str]) -> frozenset[Folder]:
    return frozenset(chain.from_iterable(places_of(str(one)) for one in paths))


@dataclass
class _CatalogTables:
    """One catalog's tables, and when they were asked for."""

    names: tuple[tuple[str, ...], ...] = ()
    listed_until_s: float | None = None
    facts: dict[tuple[str, ...], TablePlaces] = field(default_factory=dict)
    loaded_until_s: float | None = None
    lock: threading.Lock = field(default_factory=threading.Lock)


class Neighbours:
    """All tables of some catalogs, kept for all tasks of a process. Thread-safe."""

    def __init__(
        self, catalogs: KnownCatalogs, now_s: Callable[[], float] = time.monotonic
    ) -> None:
        self._catalogs, self._now_s = catalogs, now_s
        self._known: dict[tuple[str, str, str], _CatalogTables] = {}
        self._lock = threading.Lock()

    def neighbours_of(self, table: LoadedTable) -> list[Neighbour]:
        """Return other tables with the same uuid, or with files in the same places. Raises
        TaskRefused `neighbours_unknown` if a catalog's answer is incomplete, RetryLater if it does
        not answer."""
        own = places_of_metadata(table.identity.full_name, table.metadata_location, _as_json(table))
        found = list[Neighbour]()
        for facts in self.other_tables(table):
            if facts.uuid == own.uuid:
                detail = f"both have the uuid {own.uuid}"
                found.append(Neighbour(facts.name, SharingRefusal.SHARED_IDENTITY, detail))
            elif place := own.common_place(facts):
                detail = f"both have files in {place.store}/{'/'.join(place.segments)}"
                found.append(Neighbour(facts.name, SharingRefusal.SHARED_LOCATION, detail))
        return sorted(found, key=lambda one: (one.reason, one.name))

    def other_tables(self, table: LoadedTable) -> Iterator[TablePlaces]:
        """Yield all tables but this one. Raises the errors of `neighbours_of`."""
        catalogs = self._catalogs.known_catalogs(table.identity)
        here = {one.address for one in catalogs if one.catalog_path == table.identity.catalog_path}
        for catalog in catalogs:
            for name, facts in self._tables_of(catalog).items():
                if name != table.identity.path or catalog.address not in here:
                    yield facts

    def _tables_of(self, catalog: NamedTables) -> dict[tuple[str, ...], TablePlaces]:
        """Return the facts of a catalog's tables by name, those of slow catalogs at most
        `FACTS_AGE_S` old. Raises the errors of `neighbours_of`."""
        key = (catalog.catalog_path, *catalog.address)
        with self._lock:
            known = self._known.setdefault(key, _CatalogTables())
        with known.lock:  # who comes meanwhile has what this one finds
            began_s = self._now_s()
            if known.listed_until_s is None or began_s > known.listed_until_s:
                known.names = _list_names(catalog)
                took_s = self._now_s() - began_s
                age_s = _age_limit_s(took_s, QUICK_LISTING_S, NAMES_SHARE, NAMES_AGE_S)
                known.listed_until_s = began_s + age_s
            began_s = self._now_s()
            if loads_all := known.loaded_until_s is None or began_s > known.loaded_until_s:
                known.facts = {}
            due = [name for name in known.names if name not in known.facts]
            found = {**known.facts, **dict(_load_facts(catalog, due))}
            known.facts = {name: one for name in known.names if (one := found[name]) is not None}
            if loads_all:
                took_s = self._now_s() - began_s
                age_s = _age_limit_s(took_s, QUICK_LOADS_S, FACTS_SHARE, FACTS_AGE_S)
                known.loaded_until_s = began_s + age_s
            return known.facts


def _age_limit_s(took_s: float, quick_s: float, share: int, most_s: float) -> float:
    """Return how long an answer is used that took so long; 0 if asking again is quick."""
    return min(share * took_s, most_s) if took_s > quick_s else 0.0


def _list_names(catalog: NamedTables) -> tuple[tuple[str, ...], ...]:
    try:
        return tuple(dict.fromkeys(catalog.table_names()))
    except CatalogRefused as error:
        text = (
            f"{catalog.catalog_path}: its tables cannot be listed, so another one may have the "
            f"same files: {error}. Give Firnline the right to list and load all of its tables"
        )
        raise TaskRefused(SharingRefusal.NEIGHBOURS_UNKNOWN, text, retryable=True) from error


def _load_facts(
    catalog: NamedTables, names: Sequence[tuple[str, ...]]
) -> Iterable[tuple[tuple[str, ...], TablePlaces | None]]:
    if len(names) <= FEW:
        return [(name, _load_places(catalog, name)) for name in names]
    with ThreadPoolExecutor(AT_ONCE, "neighbours") as pool:
        return list(
            zip(names, pool.map(lambda name: _load_places(catalog, name), names), strict=True)
        )


def _load_places(catalog: NamedTables, name: tuple[str, ...]) -> TablePlaces | None:
    """Load one table. None: the catalog has no such table (any more). A table that cannot be
    loaded, and that the operator declares to share no file, has no places."""
    dotted = ".".join(name)
    full = f"{catalog.catalog_path}:{dotted}"
    try:
        return places_of_metadata(full, *catalog.metadata_json(name))
    except TableGone:
        return None
    except (RetryLater, TaskRefused, ValueError, TypeError, AttributeError) as error:
        if isinstance(error.__cause__, requests.RequestException):
            raise  # the catalog is away, not this table
        if dotted in {declared.strip() for declared in catalog.unreadable_tables.split(",")}:
            return TablePlaces(full, "", frozenset(), frozenset())  # loaded again with all others
        text = (
            f"{full} cannot be loaded, so it may have the same files: {error}. Give Firnline the "
            f"right to load it, repair it, drop it, or, if it shares no file with others, add "
            f"{dotted} to {UNREADABLE} of the catalog's connection"
        )
        raise TaskRefused(SharingRefusal.NEIGHBOURS_UNKNOWN, text, retryable=True) from error


def _as_json(table: LoadedTable) -> dict[str, Any]:
    found: dict[str, Any] = table.metadata.model_dump(mode="json", by_alias=True)
    return found


_shared: WeakKeyDictionary[KnownCatalogs, Neighbours] = WeakKeyDictionary()
_shared_lock = threading.Lock()


def neighbours_in(catalogs: KnownCatalogs) -> Neighbours:
    """Return the neighbours in these catalogs, shared by all tasks of this process."""
    with _shared_lock:
        return _shared.setdefault(catalogs, Neighbours(catalogs))


def refuse_shared(catalogs: KnownCatalogs, table: LoadedTable) -> None:
    """Refuse a table that shares its uuid or its places with another, before anything is removed,
    moved or withdrawn. Raises TaskRefused with a `SharingRefusal`, RetryLater."""
    found = neighbours_in(catalogs).neighbours_of(table)
    if not found:
        return
    first, more = found[0], len(found) - 1
    others = f" (and {more} more)" if more else ""
    text = f"{table.identity.full_name} and {first.name}{others}: {first.detail}"
    raise TaskRefused(first.reason, f"{text}: {REMEDIES[first.reason]}", retryable=True)


def refuse_occupied(catalogs: KnownCatalogs, table: LoadedTable, location: str) -> None:
    """Refuse a location with another table's files, before a table is created there for this one.
    Raises the errors of `refuse_shared`."""
    new = TablePlaces("", "", places_of(location), frozenset())
    for other in neighbours_in(catalogs).other_tables(table):
        if new.common_place(other) is not None:
            text = f"{other.name} has files at {location}: name a location of its own"
            raise TaskRefused(SharingRefusal.SHARED_LOCATION, text, retryable=True)


REMEDIES: Final[Mapping[SharingRefusal, str]] = {
    SharingRefusal.SHARED_IDENTITY: "drop one of them without its files, or copy it to a new table",
    SharingRefusal.SHARED_LOCATION: "give one of them a location, write.data.path and "
    "write.metadata.path of its own",
}


class Allowance(Protocol):
    """`catalog_client.Tables` of the table's catalog."""

    @property
    def external_files(self) -> str:
        """Locations, comma-separated, that the operator named."""


def outside_rule(
    catalogs: KnownCatalogs, table: LoadedTable, allowance: Allowance
) -> Callable[[str], str]:
    """Return a rule why a file outside the table's own locations stays, "" = it may be removed. A
    writer can name any path in a manifest, also one for which only Firnline has rights: so the
    operator lists where such files may be removed, and none in another table's places is. Raises
    the errors of `refuse_shared`."""
    allowed = [places_of(one.strip()) for one in allowance.external_files.split(",") if one.strip()]
    others = list(neighbours_in(catalogs).other_tables(table)) if allowed else []
    trees = {place: one.name for one in others for place in one.trees}
    folders = {place: one.name for one in others for place in one.folders}

    def why_kept(path: str) -> str:
        places = places_of(path)
        if not lies_below(path, allowed):
            return "it lies outside the table's locations and of those of firnline.external-files"
        for place in places:
            above = (Folder(place.store, place.segments[:at]) for at in range(len(place.segments)))
            name = next((trees[one] for one in above if one in trees), None)
            name = name or folders.get(Folder(place.store, place.segments[:-1]))
            if name is not None:
                return f"it lies in a place of {name}"
        return ""

    return why_kept


def lies_below(path: str, allowed: Sequence[frozenset[Folder]]) -> bool:
    """Return True if every reader takes the path for one strictly below one of these
    (`places_of`)."""
    places = places_of(path)
    return any(
        all(any(one.contains(place) and one != place for one in some) for place in places)
        for some in allowed
    )
