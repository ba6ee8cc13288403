"""One JVM, an in-memory catalog whose table can be set back, and the real committer on both.

A state of the table is the path of its metadata file and the set of files that are gone. To go back
to one, the catalog's entry is pointed at that metadata file: so schedules share their beginnings.
Nothing is deleted while a later schedule may need it: deletions are remembered per state.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from contextlib import AbstractContextManager
from functools import lru_cache
from io import BytesIO
from pathlib import Path
from typing import Any, TypeVar, cast
from unittest.mock import patch

from firnline_adapters.observability.logs import Log
from firnline_committer.commit.committer import Committer
from firnline_committer.commit.held_catalog import without_gateway
from firnline_committer.handlers import CommitterHandlers
from firnline_domain.identity import TableName
from firnline_iceberg.commit import java_commits as commits
from firnline_iceberg.commit.java_commits import JavaCommits
from firnline_iceberg.commit.rewrite import Outcome
from firnline_iceberg.java.jvm import IcebergJvm
from firnline_iceberg.metadata.entry_cache import FileCache
from firnline_iceberg.table.catalog_client import Tables
from firnline_iceberg.table.loaded_table import LoadedTable
from py4j.java_gateway import JavaClass, JavaPackage
from pyiceberg.io import FileIO, InputFile, OutputFile
from pyiceberg.table.metadata import TableMetadata, TableMetadataUtil

NAMESPACE = "lab"
MANIFEST_ENTRIES = 20_000
T = TypeVar("T")
LATIN = "ISO-8859-1"  # a character for every byte
NOW_MS = 5


class Sink(BytesIO):
    """A file that is there once it is closed."""

    def __init__(self, done: Callable[[bytes], None]) -> None:
        super().__init__()
        self._done = done

    def close(self) -> None:
        if not self.closed:
            self._done(self.getvalue())
        super().close()


class Storage(FileIO):
    """The JVM's in-memory files, less those that are gone in this state. `made`: by Python code,
    which is by Firnline, where the name says so."""

    def __init__(self, jvm: Any, java_files: Any) -> None:
        super().__init__()
        self._java = java_files
        self._io = jvm.org.apache.iceberg.inmemory.InMemoryFileIO()
        self._text = jvm.org.apache.commons.io.IOUtils.toString
        self._read: dict[str, bytes] = {}
        self.gone: set[str] = set()
        self.made: set[str] = set()

    def exists(self, path: str) -> bool:
        return path not in self.gone and (path in self._read or self._java.containsKey(path))

    def get(self, path: str) -> bytes:
        """Bytes of a file, which never change. Raises FileNotFoundError."""
        if path in self.gone:
            raise FileNotFoundError(path)
        if path not in self._read:
            if not self._java.containsKey(path):
                raise FileNotFoundError(path)
            # as a string: py4j takes 9 ms for 7 kB of bytes
            text = self._text(self._io.newInputFile(path).newStream(), LATIN)
            self._read[path] = text.encode(LATIN)
        return self._read[path]

    def put(self, path: str, data: bytes) -> None:
        self.gone.discard(path)
        self.made.add(path)
        self._read[path] = data
        self._java.put(path, data)

    def mark(self, jvm: Any) -> tuple[Any, int]:
        """What is there now."""
        return jvm.java.util.HashSet(self._java.keySet()), len(self._read)

    def back_to(self, mark: tuple[Any, int]) -> None:
        """Forget what was written since."""
        self._java.keySet().retainAll(mark[0])
        while len(self._read) > mark[1]:
            self._read.popitem()

    def new_input(self, location: str) -> InputFile:
        return _File(location, self)

    def new_output(self, location: str) -> OutputFile:
        return _File(location, self)

    def delete(self, location: Any) -> None:
        if not self.exists(location):
            raise FileNotFoundError(location)
        self.gone.add(location)


class _File(InputFile, OutputFile):
    """Read and written."""

    def __init__(self, location: str, storage: Storage) -> None:
        super().__init__(location)
        self._storage = storage

    def __len__(self) -> int:
        return len(self._storage.get(self.location))

    def exists(self) -> bool:
        return self._storage.exists(self.location)

    def open(self, seekable: bool = True) -> Any:
        return BytesIO(self._storage.get(self.location))

    def to_input_file(self) -> InputFile:
        return self

    def create(self, overwrite: bool = False) -> Any:
        if not overwrite and self.exists():
            raise FileExistsError(self.location)
        return Sink(lambda data: self._storage.put(self.location, data))


class Java:
    """Packages, classes and their methods, each asked for once: py4j asks the JVM at every dot."""

    def __init__(self, found: Any) -> None:
        self._found = found

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._found, name)
        if isinstance(found, JavaPackage | JavaClass):
            found = Java(found)
        setattr(self, name, found)
        return found

    def __call__(self, *args: Any) -> Any:
        return self._found(*args)


class Commits(JavaCommits):
    """The committer's own, on our catalog; a writer may come just before its request."""

    def __init__(self, ground: Ground) -> None:
        with patch.object(commits, "rest_catalog", return_value=ground.catalog):
            super().__init__(cast(IcebergJvm, ground), "in memory")
        self._ground = ground

    def commit(self, *args: Any, **more: Any) -> Outcome:
        racer, self._ground.racer = self._ground.racer, None
        if racer is not None:
            racer()
        return super().commit(*args, **more)


class Cache(FileCache):
    """Manifests have names of their own. Those of other files are taken again after a table was set
    back, for other rows."""

    def __init__(self) -> None:
        super().__init__(MANIFEST_ENTRIES)
        self.state = 0

    def get_weighed(self, key: Hashable, read: Callable[[], T], entries: Callable[[T], int]) -> T:
        named = isinstance(key, tuple) and isinstance(key[1], str)
        return super().get_weighed((self.state, key) if named else key, read, entries)


class Ground:
    """What all schedules run on. One at a time."""

    def __init__(self, iceberg_jar: Path) -> None:
        self.iceberg = IcebergJvm(iceberg_jar)
        self.jvm: Any = Java(self.iceberg.jvm)
        self.catalog = self.jvm.org.apache.iceberg.inmemory.InMemoryCatalog()
        self.catalog.initialize("lake", {"warehouse": "mem:/w"})
        names = self.jvm.org.apache.iceberg.catalog
        self._namespace = names.Namespace.of(_strings(self.iceberg, NAMESPACE))
        self.catalog.createNamespace(self._namespace)
        self.storage = Storage(
            self.jvm, self._private("inmemory.InMemoryFileIO", "IN_MEMORY_FILES", None)
        )
        self._entries = self._private("inmemory.InMemoryCatalog", "tables", self.catalog)
        self._cache = Cache()
        self.racer: Callable[[], None] | None = None
        self.handlers = self._committer()

    def _private(self, name: str, field: str, owner: Any) -> Any:
        of = self.jvm.java.lang.Class.forName(f"org.apache.iceberg.{name}").getDeclaredField(field)
        of.setAccessible(True)
        return of.get(owner)

    def _committer(self) -> CommitterHandlers:
        log, tables = Log("schedules"), cast(Tables, self)
        lake, commits = without_gateway(tables), Commits(self)
        return CommitterHandlers(
            Committer(lake, commits, log, now_ms, lambda _: None), tables, now_ms
        )

    # ---- tables

    @lru_cache  # noqa: B019  there is one ground
    def identifier(self, name: str) -> Any:
        names = self.jvm.org.apache.iceberg.catalog
        return names.TableIdentifier.of(self._namespace, name)

    def java_table(self, name: str) -> Any:
        return self.catalog.loadTable(self.identifier(name))

    def location(self, name: str) -> str:
        """The metadata file that the catalog's entry points at."""
        return str(self._entries.getOrDefault(self.identifier(name), None))

    def point(self, name: str, location: str) -> None:
        """Set a table to a state."""
        self._cache.state += 1
        self._entries.put(self.identifier(name), location)

    def load(self, table: TableName) -> LoadedTable:
        """`firnline_iceberg.table.catalog_client.Tables` for the committer."""
        location = self.location(table.name)
        metadata = _metadata(self.storage, location)
        return LoadedTable(table, metadata, self.storage, location, self._cache)

    # ---- the JVM, as the committer's `IcebergJvm`

    def watch(self) -> AbstractContextManager[None]:
        return self.iceberg.watch()

    def close(self) -> None:
        self.iceberg.close()


@lru_cache(maxsize=512)
def _metadata(storage: Storage, location: str) -> TableMetadata:
    return TableMetadataUtil.parse_raw(storage.get(location).decode())


def now_ms() -> int:
    """No life time passes."""
    return NOW_MS


def _strings(iceberg: IcebergJvm, *values: str) -> Any:
    array = iceberg._gateway.new_array(iceberg.jvm.java.lang.String, len(values))
    for number, value in enumerate(values):
        array[number] = value
    return array
