"""Tables as they were last published, by this process or, before it began, by the planner's states.

Nothing is stored here: after a restart the heads come from the topic `table-states`.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping
from typing import Any

from firnline_domain.base.values import Value, field, replace
from firnline_domain.identity import MAIN, TableName
from firnline_domain.records.states import TableState
from firnline_iceberg.storage.paths import FileAddress, folder_of, parse_address

from firnline_listener.port import Doorbell

STATES = "table-states"
Heads = Mapping[str, int | None]


class Place(Value):
    """Where to look: a table, or without a name the listing of a namespace or of the catalog."""

    catalog: str  # a `TableName.catalog_path`, or the name of a connection
    namespace: tuple[str, ...] = ()
    name: str = ""

    @property
    def path(self) -> tuple[str, ...]:
        """Return namespace levels and name."""
        return (*self.namespace, self.name)


def namespace_of(place: Place) -> Place:
    """Return where the namespace of a table is listed."""
    return Place(place.catalog, place.namespace)


def place_of(table: TableName) -> Place:
    """Return where the catalog has a table."""
    return Place(table.catalog_path, table.namespace, table.name)


class KnownTable(Value):
    """A table as it was last published.

    `heads`: of its branches. `folded`: head of `main` in the planner's counters. `outline`: digest
    of its schema, spec and properties; b"" after a restart. `settings`: those in the planner's
    state, kept until the table is read. `retained`: number of its snapshots."""

    table: TableName
    heads: Heads
    folded: int | None
    changed_ms: int  # when the table changed, as far as known
    outline: bytes = b""
    settings: dict[str, str] = field(default_factory=dict)
    retained: int | None = None
    location: str = ""
    etag: str = ""

    @property
    def is_read(self) -> bool:
        """Return whether this process has read the table."""
        return self.outline != b""


class KnownTables:
    """All tables by key. Values are replaced and never changed, so any thread may read; the core's
    alone writes. `namespaces`: all that are known, those without tables among them."""

    def __init__(self) -> None:
        self.by_key: dict[str, KnownTable] = {}
        self.namespaces: set[Place] = set()
        self._names: defaultdict[Place, dict[str, str]] = defaultdict(dict)  # keys by name
        self._by_uuid: defaultdict[str, set[str]] = defaultdict(set)
        # By the folder of its metadata files; and the last one read, by the folder around its own.
        self._by_folder: dict[FileAddress, TableName] = {}
        self._neighbours: dict[FileAddress, TableName] = {}

    def fold_state(self, key: str, state: Any | None, _: int = 0) -> None:
        """Take in a record of `table-states`. The head is the newest that the planner has; all else
        of a table that was read here is known better."""
        if not isinstance(state, TableState) or state.ref != MAIN:
            return
        known = self.by_key.get(state.table.key)
        head = state.head_snapshot_id
        if state.removed:
            if known is not None:
                self.forget(known)
        elif known is not None and known.is_read:
            count = state.snapshot_count
            retained = known.retained if count is None else count
            self.by_key[state.table.key] = replace(known, folded=head, retained=retained)
        else:
            heads: Heads = {} if head is None else {MAIN: head}
            self.keep_table(
                KnownTable(
                    *(state.table, heads, head, state.updated_at_ms),
                    settings=state.settings,
                    retained=state.snapshot_count,
                )
            )

    def keep_table(self, known: KnownTable) -> None:
        """Keep a table; its earlier name belongs to it no more."""
        key, place = known.table.key, place_of(known.table)
        if (old := self.by_key.get(key)) is not None and place_of(old.table) != place:
            self._release_name(old)
        self.by_key[key] = known
        self._names[namespace_of(place)][place.name] = key
        self.namespaces.add(namespace_of(place))
        self._by_uuid[known.table.uuid].add(key)
        folder = folder_of(known.location)
        if folder and (
            old is None or old.table != known.table or folder_of(old.location) != folder
        ):
            self._keep_folder(known)

    def _keep_folder(self, known: KnownTable) -> None:
        for kept, levels in ((self._by_folder, 1), (self._neighbours, 3)):
            if (folder := _folder_above(known.location, levels)) is not None:
                kept[folder] = known.table

    def forget(self, known: KnownTable) -> None:
        """Forget a table that was dropped."""
        self.by_key.pop(known.table.key, None)
        self._release_name(known)
        self._by_uuid[known.table.uuid].discard(known.table.key)
        if (folder := _folder_above(known.location, 1)) is not None:
            self._by_folder.pop(folder, None)

    def _release_name(self, known: KnownTable) -> None:
        place = place_of(known.table)
        if self._key_at(place) == known.table.key:
            del self._names[namespace_of(place)][place.name]

    def _key_at(self, place: Place) -> str:
        return self._names.get(namespace_of(place), {}).get(place.name, "")

    def at_place(self, place: Place) -> KnownTable | None:
        """Return the table that has this name."""
        return self.by_key.get(self._key_at(place))

    def names_in(self, namespace: Place) -> set[str]:
        """Return the names of the tables of a namespace, without those of the ones below it."""
        return set(self._names.get(namespace, ()))

    def forget_namespaces(self, parent: Place, listed: Collection[tuple[str, ...]]) -> None:
        """Forget the namespaces right below this one that are not listed and have no tables."""
        depth = len(parent.namespace) + 1
        self.namespaces -= {
            one
            for one in self.namespaces
            if one.catalog == parent.catalog
            and len(one.namespace) == depth
            and one.namespace[:-1] == parent.namespace
            and one.namespace not in listed
            and not self._names.get(one)
        }

    def resolve(self, doorbell: Doorbell) -> Place:
        """Return where to look for a doorbell. A uuid that is not known means the listing of its
        namespace or catalog; a metadata file in a folder that is not known, the listing of a
        neighbour's namespace."""
        place = Place(doorbell.catalog, doorbell.namespace, doorbell.name)
        if place.name:
            return place
        location, catalog = doorbell.metadata_location, doorbell.catalog
        named = [self.by_key[key].table for key in self._by_uuid.get(doorbell.uuid, ())]
        for table in (*named, *_at_folder(self._by_folder, location, 1)):
            if catalog in (table.catalog, table.catalog_path):
                return place_of(table)
        for near in _at_folder(self._neighbours, location, 3):
            if catalog in (near.catalog, near.catalog_path):
                return namespace_of(place_of(near))
        return place

    def is_published(self, doorbell: Doorbell, place: Place) -> bool:
        """Return whether a doorbell names a version that was published here already."""
        known = self.at_place(place)
        if known is None or not known.is_read:
            return False
        if doorbell.metadata_location:
            return doorbell.metadata_location == known.location
        return doorbell.snapshot_id is not None and doorbell.snapshot_id == known.heads.get(MAIN)


def _at_folder(
    kept: Mapping[FileAddress, TableName], path: str, levels: int
) -> Iterator[TableName]:
    """Yield the table that is kept at the folder so many levels above a file, if there is one."""
    folder = _folder_above(path, levels)
    if folder is not None and folder in kept:
        yield kept[folder]


def _folder_above(path: str, levels: int) -> FileAddress | None:
    """Return the folder so many levels above a file; None if the path is unclear or has fewer."""
    address = parse_address(path)
    if address is None or len(address.segments) < levels:
        return None
    return FileAddress(address.scheme, address.authority, address.segments[:-levels])
