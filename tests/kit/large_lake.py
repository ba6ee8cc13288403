"""A lake of many tables, cheaply: a few are made of metadata alone, the others are their copies.

No data file exists. A copy is a metadata file of its own with another uuid, registered under
another name; its manifests are those of the table it was copied from.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Iterator, Sequence
from itertools import cycle, islice
from pathlib import Path
from typing import Any

from firnline_domain.identity import TableName
from firnline_iceberg.java.api import load_table
from pyiceberg.catalog.rest import RestCatalog

from tests.kit.lake.table import create_table
from tests.kit.lake.writer import Place, TableWriter, described, local

MB = 1 << 20
UNPARTITIONED: Place = (0, "[]")


class Maker:
    """Makes tables of one namespace."""

    def __init__(self, jvm: Any, catalog: Any, namespace: str) -> None:
        self._jvm, self._catalog, self._namespace = jvm, catalog, namespace

    def table(self, name: str, partitioned: bool = False, **properties: str) -> TableWriter:
        wanted = TableName("", (self._namespace,), name)
        made = create_table(self._jvm, self._catalog, wanted, partitioned, **properties)
        return TableWriter(self._jvm, lambda: load_table(self._jvm, self._catalog, made))


def file(
    place: Place = UNPARTITIONED, size: int = MB, content: str = "data", **more: object
) -> str:
    """One that is nowhere."""
    path = f"file:///nowhere/{uuid.uuid4().hex}.parquet"
    return described(place, path, size, max(size // 100, 1), content, **more)


def deletes(keys: Sequence[int] = (1,), place: Place = UNPARTITIONED) -> str:
    """An equality-delete file of the columns with these ids."""
    return file(place, 10_000, content="equality-deletes", equality_ids=list(keys))


def tidy(make: Maker) -> None:
    """Nothing to do."""
    writer = make.table("tidy")
    for _ in range(3):
        writer.append(file(size=512 * MB))


def fragments(make: Maker) -> None:
    """A stream's small files."""
    writer = make.table("fragments")
    for _ in range(20):
        writer.append(file(size=MB // 5), file(size=MB // 5))


def upserts(make: Maker) -> None:
    """Equality deletes that nobody has applied, over larger files."""
    writer = make.table("upserts")
    writer.append(*(file(size=256 * MB) for _ in range(6)))
    for _ in range(15):
        writer.row_delta([file()], [deletes(), deletes()])


def days(make: Maker, commits: int = 60) -> None:
    """Many partitions, a manifest for each commit."""
    writer = make.table("days", partitioned=True)
    for number in range(commits):
        place = (0, json.dumps([f"d{number % 40}"]))
        writer.append(*(file(place, 2 * MB) for _ in range(10)))


def history(make: Maker, commits: int = 150) -> None:
    """Nobody has expired its snapshots."""
    writer = make.table("history")
    for _ in range(commits):
        writer.append(file(size=64 * MB))


def dangling(make: Maker) -> None:
    """Position deletes of files that are not there any more."""
    writer = make.table("dangling")
    writer.append(*(file(size=512 * MB) for _ in range(4)))
    gone = [f"file:///nowhere/gone-{number}.parquet" for number in range(12)]
    named = [file(size=2_000, content="position-deletes", referenced_data_file=one) for one in gone]
    writer.row_delta(deletes=named)


TEMPLATES: tuple[Callable[[Maker], None], ...] = (
    *(tidy, fragments, upserts),
    *(days, history, dangling),
)


def lake_of(
    jvm: Any, java_catalog: Any, catalog: RestCatalog, prefix: str, tables: int, folder: Path
) -> Iterator[str]:
    """Makes a lake of so many tables, a hundred to a namespace; the name of each as it comes."""
    first = f"{prefix}_0"
    catalog.create_namespace(first)
    maker = Maker(jvm, java_catalog, first)
    for template in TEMPLATES:
        template(maker)
        yield f"{first}.{template.__name__}"
    originals = {one.__name__: f"{first}.{one.__name__}" for one in TEMPLATES}
    bodies = {
        name: json.loads(local(catalog.load_table(original).metadata_location).read_text())
        for name, original in originals.items()
    }
    for number, name in enumerate(islice(cycle(bodies), tables - len(TEMPLATES))):
        namespace = f"{prefix}_{1 + number // 100}"
        if number % 100 == 0:
            catalog.create_namespace(namespace)
        body = {**bodies[name], "table-uuid": str(uuid.uuid4())}
        place = folder / f"{number}-{uuid.uuid4().hex}.metadata.json"
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(json.dumps(body))
        catalog.register_table(f"{namespace}.{name}{number}", f"file://{place}")
        yield f"{namespace}.{name}{number}"
