"""Owners whose tables are wrong or lie: times at the ends of the calendar, absurd numbers, bounds
that contradict the rows, odd paths, clones, overlapping locations, links, and a table that the
catalog refuses. All by Iceberg's own client or plain requests, as any engine could.

Each acknowledged row must be read again in the end, and each file of a retained snapshot must be
there. Rows are ids of their own; nothing here deletes a row.
"""

from __future__ import annotations

import itertools
import json
import random
import threading
import time
import uuid
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from email.message import Message
from http import HTTPStatus
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import requests
from firnline_iceberg.connection.connection import CatalogConnection
from firnline_iceberg.java.api import rest_catalog
from firnline_iceberg.java.jvm import IcebergJvm
from py4j.protocol import Py4JError, Py4JJavaError

from firnline_chaos.catalog_proxy import Answer, Gate
from firnline_chaos.tables import PROPERTIES
from tests.kit.lake.writer import FileWriter, TableWriter, local, numbered

NAMESPACE = "hostile_owners"
COLUMNS = numbered({"id": (1, pa.int64()), "v": (2, pa.string()), "p": (3, pa.string())})
SCHEMA = {
    "type": "struct",
    "schema-id": 0,
    "fields": [
        {"id": 1, "name": "id", "required": False, "type": "long"},
        {"id": 2, "name": "v", "required": False, "type": "string"},
        {"id": 3, "name": "p", "required": False, "type": "string"},
    ],
}
TODAY = "2090-01-01"  # far from any age
CALENDAR = (
    "2026-12-01T00:00/9999-12-31T23:59 America/New_York",
    "0001-01-01T00:00/9999-12-31T23:59 Asia/Tokyo",
    "0001-01-01T00:00/0001-01-02T00:00 Pacific/Kiritimati",
    "2026-01-01T00:00+14:00/9999-12-31T23:59-14:00",
    "9999-12-31T23:59/9999-12-31T23:59 Pacific/Niue",
    "Mon-Sun 00:00-24:00 Pacific/Apia",
    "Sun-Mon 23:59-00:01 Africa/Monrovia",
    "9" * 5_000,
    "\x00/\x00 UTC",
    "2026-02-30T25:61/2026-02-31T00:00 Europe/Berlin",
)
CALENDAR_NAMES = (
    "firnline.blackout", "firnline.window", "firnline.expire.tags", "firnline.tags.create",
)  # fmt: skip
NUMBERS = (0, -1, 1, 2**31 - 1, 2**31, 2**53, 2**62, 2**63 - 1)
SUMMARY_NUMBERS = ("9" * 30, "-1", "NaN", "1e309", "", "\u0661", "18446744073709551616")
SUMMARY_NAMES = (
    "firnline.rows-repaired", "firnline.lost-groups", "removed-equality-delete-files",
    "total-records", "total-data-files", "added-files-size", "deleted-records",
)  # fmt: skip
BOUNDS = (b"", b"\xff", b"2020-01-01", b"\xe6\x97", b"9999", b"\x00" * 40)
ODD_NAMES = ("a#b", "a?b", "a;b", "a b", "a%20b", "a%2Fb", "\u00e4b", "a\u0308", "a+b", "a&b")
REFUSED_PER_S = 5.0
REFUSED_S, SHOWN_S = 75.0, 30.0  # the first is longer than the enricher's patience
EXPIRING = {
    "firnline.expire.enabled": "true",
    "firnline.expire.min-interval-ms": "20000",
    "history.expire.max-snapshot-age-ms": "1000",
}
ORPHANS = {"firnline.orphans.enabled": "true", "firnline.orphans.min-interval-ms": "20000"}
AGEING = {
    "firnline.partitions.ttl-hours": "24",
    "firnline.partitions.column": "p",
    "firnline.partitions.grace-ms": "1000",
    "firnline.partitions.min-interval-ms": "20000",
}
NAMED: dict[str, tuple[str, ...]] = {
    # Hostile tables -> words of which one must reach a person about one of them.
    "calendar": ("unreadable", "problem", "cannot be read"),
    "numbers": ("odd_numbers", "metadata_unreadable"),
    "clone": ("shared_identity",),
    "clone_source": ("shared_identity",),
    # While the refused table is not shown, either is told of that instead.
    "overlapping neighbour": ("shared_location",),
    "refused": ("ForbiddenException",),
}
ALONE = ("calendar", "numbers", "summary", "bounds", "paths", "clone_source", "linked", "refused")
REFUSED_PATH = f"/v1/namespaces/{NAMESPACE}/tables/refused"


@dataclass
class OwnersBook:
    """What was committed. `ids`: rows by table; `unsure`: rows whose commit was not answered."""

    sent: Counter[str] = field(default_factory=Counter)
    ids: dict[str, set[int]] = field(default_factory=dict)
    unsure: set[int] = field(default_factory=set)
    errors: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class AppendedRow:
    """A row's id, and its file as Iceberg's JSON."""

    number: int
    file: str


class HostileOwners:
    """Writes its tables on one thread, and one refused table on another; `close` ends its JVM."""

    def __init__(self, iceberg_jar: Path, gateway: CatalogConnection, uri: str) -> None:
        self._java = IcebergJvm(iceberg_jar, heap_bytes=192 << 20)
        self._jvm = self._java.jvm
        self._catalog = rest_catalog(self._jvm, gateway)
        self._uri = uri
        self._ids = itertools.count(1)
        self._places: dict[str, str] = {}
        self.uuids = set[str]()
        self.book = OwnersBook()

    def close(self) -> None:
        self._java.close()

    def create_tables(self) -> None:
        """Make every table once. Raises HTTPError and Py4JError."""
        body = {"namespace": [NAMESPACE]}
        answer = requests.post(f"{self._uri}/v1/namespaces", json=body, timeout=30)
        if answer.status_code != HTTPStatus.CONFLICT:
            answer.raise_for_status()
        more: dict[str, dict[str, str]] = {
            "bounds": AGEING, "paths": EXPIRING, "clone_source": {**EXPIRING, **ORPHANS},
            "linked": ORPHANS,
        }  # fmt: skip
        for name in ALONE:
            self._create(name, more.get(name, {}))
        pair = f"{self._places['calendar'].rsplit('/', 1)[0]}/pair"
        self._create("neighbour", ORPHANS, f"{pair}/neighbour")
        self._create("overlapping", {**ORPHANS, **EXPIRING}, pair)
        for _ in range(3):
            self._append("neighbour")
        self._link()
        self._append("clone_source")
        self._register_clone()

    def work(self, dice: random.Random, stop: threading.Event) -> None:
        """One act at a time, until `stop`."""
        acts: dict[str, Callable[[random.Random], None]] = {
            "calendar": self._set_calendar, "numbers": self._append_numbers,
            "summary": self._append_summary, "bounds": self._append_bounds,
            "paths": self._replace_odd_file, "clone_source": self._append_both,
            "overlapping": lambda _: self._append("overlapping"),
            "linked": lambda _: self._append("linked"),
            "neighbour": lambda _: self._append("neighbour"),
        }  # fmt: skip
        refused = threading.Thread(target=self._commit_refused, args=(stop,), daemon=True)
        refused.start()
        while not stop.wait(0.4):
            name = dice.choice(list(acts))
            try:
                acts[name](dice)
                self.book.sent[f"owner {name}"] += 1
            except (Py4JError, requests.RequestException) as error:
                self.book.sent[f"owner {name}: {type(error).__name__}"] += 1
            except Exception as error:
                self.book.errors.append(f"{name}: {error!r}"[:400])
        refused.join()

    # ---- acts

    def _set_calendar(self, dice: random.Random) -> None:
        self._append("calendar")
        self._set("calendar", {dice.choice(CALENDAR_NAMES): dice.choice(CALENDAR)})

    def _append_numbers(self, dice: random.Random) -> None:
        """An entry whose counts and sizes are absurd; its rows are true ones."""
        names = ("record-count", "file-size-in-bytes")
        more = {name: dice.choice(NUMBERS) for name in dice.sample(names, dice.randint(1, 2))}
        if not self.book.ids["numbers"]:
            more["record-count"] = 2**62  # the dice may give none that a person must be told of
        sizes = {"keys": [1, 2], "values": [dice.choice(NUMBERS), dice.choice(NUMBERS)]}
        self._append("numbers", {**more, dice.choice(("column-sizes", "value-counts")): sizes})

    def _append_summary(self, dice: random.Random) -> None:
        task = f"{dice.getrandbits(128):032x}"
        number = dice.choice(SUMMARY_NUMBERS)
        summary = {"firnline.task-id": task}
        for name in dice.sample(SUMMARY_NAMES, 3):
            summary[name] = f"{task}:{number}" if name.startswith("firnline.") else number
        self._append("summary", {}, summary)

    def _append_bounds(self, dice: random.Random) -> None:
        def keyed() -> dict[str, Any]:
            values = [dice.choice(BOUNDS).hex().upper() for _ in range(3)]
            return {"keys": [1, 2, 3], "values": values}

        self._append("bounds", {"lower-bounds": keyed(), "upper-bounds": keyed()})

    def _replace_odd_file(self, dice: random.Random) -> None:
        """Two files whose paths some library reads as one; one of them is taken out, so that an
        expiry deletes it."""
        odd = dice.choice(ODD_NAMES)
        stem = f"{self._places['paths']}/data/{uuid.uuid4().hex[:8]}"
        cut = odd[:1]
        first = self._append("paths", path=f"{stem}-{odd}.parquet")
        for sibling in (f"{stem}-{cut}", f"{stem}-{cut}.parquet"):
            self._append("paths", path=sibling)
        # Not by its path: py4j would take the method of that name which deletes a file on disk.
        self._writer("paths").delete(first.file, must_exist=True)
        self.book.ids["paths"].discard(first.number)

    def _append_both(self, dice: random.Random) -> None:
        self._append("clone_source")
        # The clone commits on its own from here: its rows are those of its own history.
        self._append("clone")

    def _commit_refused(self, stop: threading.Event) -> None:
        """Five changes a second to a table that the catalog shows to nobody of ours."""
        while not stop.wait(1 / REFUSED_PER_S):
            try:
                self._set("refused", {"note": uuid.uuid4().hex})
                self.book.sent["owner refused"] += 1
            except requests.RequestException as error:
                self.book.sent[f"owner refused: {type(error).__name__}"] += 1

    # ---- steps

    def _create(self, name: str, more: dict[str, str], location: str | None = None) -> None:
        properties = {"format-version": "2", **PROPERTIES, **more}
        spec: dict[str, Any] = {"spec-id": 0, "fields": []}
        if name == "bounds":
            field_ = {"source-id": 3, "field-id": 1000, "name": "p", "transform": "identity"}
            spec["fields"] = [field_]
        body = {"name": name, "schema": SCHEMA, "partition-spec": spec, "properties": properties}
        if location:
            body["location"] = location
        answer = requests.post(
            f"{self._uri}/v1/namespaces/{NAMESPACE}/tables", json=body, timeout=30
        )
        answer.raise_for_status()
        metadata = answer.json()["metadata"]
        self._places[name] = str(metadata["location"])
        self.uuids.add(str(metadata["table-uuid"]))
        self.book.ids.setdefault(name, set())

    def _register_clone(self) -> None:
        metadata = self._load("clone_source")["metadata-location"]
        body = {"name": "clone", "metadata-location": metadata}
        answer = requests.post(
            f"{self._uri}/v1/namespaces/{NAMESPACE}/register", json=body, timeout=30
        )
        answer.raise_for_status()
        self._places["clone"] = self._places["clone_source"]
        self.book.ids["clone"] = set(self.book.ids["clone_source"])

    def _link(self) -> None:
        """A link below one table's data that leads into a neighbour's."""
        data = local(self._places["linked"]) / "data"
        data.mkdir(parents=True, exist_ok=True)
        (data / "more").symlink_to(local(self._places["neighbour"]) / "data")

    def _append(
        self,
        name: str,
        more: dict[str, Any] | None = None,
        summary: dict[str, str] | None = None,
        path: str | None = None,
    ) -> AppendedRow:
        """Append a file of one row; told once the commit is acknowledged."""
        number = next(self._ids)
        where = path or f"{self._places[name]}/data/w-{uuid.uuid4().hex}.parquet"
        partition = (0, json.dumps([TODAY]) if name == "bounds" else "[]")
        rows = [{"id": number, "v": "x", "p": TODAY}]
        body = json.loads(FileWriter().data(where, rows, COLUMNS, partition))
        file = json.dumps({**body, **(more or {})})
        change = self._writer(name).planned_append(file)
        for key, value in (summary or {}).items():
            change.set(key, value)
        self.book.unsure.add(number)
        change.commit()
        self.book.ids[name].add(number)
        self.book.unsure.discard(number)
        return AppendedRow(number, file)

    def _writer(self, name: str) -> TableWriter:
        text = json.dumps({"namespace": [NAMESPACE], "name": name})
        parser = self._jvm.org.apache.iceberg.catalog.TableIdentifierParser
        return TableWriter(self._jvm, lambda: self._catalog.loadTable(parser.fromJson(text)))

    def _set(self, name: str, updates: dict[str, str]) -> None:
        change = {"action": "set-properties", "updates": updates}
        body = {"requirements": [], "updates": [change]}
        url = f"{self._uri}/v1/namespaces/{NAMESPACE}/tables/{name}"
        requests.post(url, json=body, timeout=30).raise_for_status()

    def _load(self, name: str) -> dict[str, Any]:
        url = f"{self._uri}/v1/namespaces/{NAMESPACE}/tables/{name}"
        answer = requests.get(url, timeout=30)
        answer.raise_for_status()
        return dict(answer.json())

    # ---- what must hold in the end

    def findings(self, console: str) -> list[str]:
        """Look at every table by Iceberg's own client: rows, files of retained snapshots, and
        whether a person is told. `console`: its address."""
        found = [f"an owner failed: {error}" for error in self.book.errors]
        for name, ids in self.book.ids.items():
            if name != "refused":
                try:
                    found += self._find_lost_rows(name, ids)
                except Py4JJavaError as error:
                    found.append(f"{name}: cannot be read: {error.java_exception.getMessage()}")
        return found + [
            f"{names}: no person is told, none of {words} is at the console"
            for names, words in NAMED.items()
            if self.book.sent.total() and not _is_told(console, names.split(), words)
        ]

    def _find_lost_rows(self, name: str, ids: set[int]) -> Iterator[str]:
        table = self._writer(name).load()
        retained = {
            path
            for snapshot in table.snapshots()
            for path in _live_paths(table, snapshot.snapshotId())
        }
        if gone := sorted(path for path in retained if not local(path).exists()):
            yield f"{name}: {len(gone)} files of retained snapshots are gone: {gone[:3]}"
        head = table.currentSnapshot()
        paths = [] if head is None else _live_paths(table, head.snapshotId())
        there = [local(path) for path in paths if local(path).exists()]
        seen = [number for path in there for number in _ids_in(path)]
        if twice := [number for number, times in Counter(seen).items() if times > 1]:
            yield f"{name}: rows are there twice: {twice[:5]}"
        if lost := ids - set(seen):
            yield f"{name}: {len(lost)} rows lost, as {sorted(lost)[:5]}"
        if extra := set(seen) - ids - self.book.unsure:
            yield f"{name}: {len(extra)} rows too many, as {sorted(extra)[:5]}"


def refusing(now: Callable[[], float] = time.monotonic) -> Gate:
    """Answer 403 to whoever asks for the refused table; its writer sends changes alone. In between
    it is shown: while it is not, no action of any table may remove a file."""
    begun = now()
    body = {"error": {"message": "not for you", "type": "ForbiddenException", "code": 403}}
    forbidden = 403, [("Content-Type", "application/json")], json.dumps(body).encode()

    def refuse(path: str, headers: Message) -> Answer | None:
        if not path.split("?")[0].endswith(REFUSED_PATH) or headers.get("Content-Length"):
            return None
        return forbidden if (now() - begun) % (REFUSED_S + SHOWN_S) < REFUSED_S else None

    return refuse


def _live_paths(table: Any, snapshot: int) -> list[str]:
    tasks = table.newScan().useSnapshot(snapshot).planFiles()
    try:
        return [str(task.file().location()) for task in tasks.iterator()]
    finally:
        tasks.close()


def _ids_in(path: Path) -> list[int]:
    with path.open("rb") as file:
        return list(pq.read_table(file, columns=["id"])["id"].to_pylist())


def _is_told(console: str, names: Iterable[str], words: Iterable[str]) -> bool:
    shown = "\n".join(_shown(console, name) for name in names)
    return any(word in shown for word in words)


def _shown(console: str, name: str) -> str:
    """Everything that the console says of one table."""
    table = f"{NAMESPACE}.{name}"
    texts = []
    for path in (
        f"/api/tables/{table}/explain", f"/api/tables/{table}/advice",
        "/api/events?limit=5000", "/api/dead-letters?limit=5000",
    ):  # fmt: skip
        answer = requests.get(console + path, timeout=30)
        if answer.status_code != HTTPStatus.NOT_FOUND:  # it knows of no clone
            answer.raise_for_status()
        if "limit" in path:
            rows = answer.json().get("events") or answer.json().get("dead_letters") or []
            texts += [json.dumps(row) for row in rows if name in json.dumps(row)]
        elif answer.ok:
            texts.append(answer.text)
    return "\n".join(texts)
