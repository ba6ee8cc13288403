"""Metadata files and bytes that are read in an hour to know what changed in a fleet: our enricher's
share of each commit, and Amoro's loop.

The loop is Amoro's `TableRuntimeRefreshExecutor` (at 96a4d781): each minute every table is loaded,
which reads its metadata file; where the snapshot is another one, the table is planned whole, which
reads the manifest list and every manifest. Sizes are of real tables, one of each kind of commit;
how often tables commit is the simulator's fleet (bench/simulate/parameters.py).
"""

from __future__ import annotations

import json
import tempfile
import uuid
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from firnline_enricher.commits import snapshot_delta
from firnline_enricher.facts import facts_of
from firnline_enricher.file_changes import ChangeContext
from firnline_enricher.resyncs import to_snapshot_added
from firnline_iceberg.java.api import content_file
from firnline_iceberg.metadata.manifest_reader import read_manifest_list
from firnline_iceberg.table.loaded_table import LoadedTable
from pyiceberg.io import FileIO, InputFile, OutputFile
from pyiceberg.typedef import EMPTY_DICT

from bench.rewrite.lake import Java, Lake, java, running
from bench.simulate.parameters import DAY_S, HOUR_S, KINDS, MINUTE_S, Kind

TABLES = 100_000
PARTITIONS = 3  # the fleet's mean, rounded down
RETAINED_S = 5 * DAY_S  # Iceberg's default of history.expire.max-snapshot-age-ms
MOST_COMMITS = 120  # of a table: past them its manifests are merged (commit.manifest.min-count)
COLUMNS = 10


@dataclass(frozen=True)
class Read:
    """Files and bytes."""

    files: float = 0.0
    bytes: float = 0.0

    def __add__(self, other: Read) -> Read:
        return Read(self.files + other.files, self.bytes + other.bytes)

    def times(self, count: float) -> Read:
        """So many of them."""
        return Read(self.files * count, self.bytes * count)

    def as_json(self) -> dict[str, float]:
        """For the results."""
        return {"files": round(self.files, 2), "bytes": round(self.bytes)}


@dataclass(frozen=True)
class Costs:
    """Of one kind of table: its metadata file, a commit to the enricher, a plan to the loop."""

    metadata: Read
    commit: Read
    plan: Read


def polling() -> dict[str, Any]:
    """Both, for a fleet of `TABLES`."""
    with (
        tempfile.TemporaryDirectory(prefix="firnline-bench-polling-") as folder,
        running(Path(folder)) as lake,
        java(lake) as machine,
    ):
        costs = {kind.name: _costs(lake, machine, kind) for kind in KINDS}
    fleet = [(kind, costs[kind.name], _tables(kind)) for kind in KINDS]
    return {
        "tables": TABLES,
        "kinds": {name: _shown(one) for name, one in costs.items()},
        "firnline": _summed(told(*one) for one in fleet).as_json(),
        "firnline_unknown": _summed(_unknown(*one) for one in fleet).as_json(),
        "amoro": _summed(polled(*one) for one in fleet).as_json(),
    }


def _tables(kind: Kind) -> float:
    return TABLES * kind.share / sum(one.share for one in KINDS)


def told(kind: Kind, costs: Costs, tables: float) -> Read:
    """An hour of the enricher, where it knows the tables."""
    return costs.commit.times(tables * per_hour(kind))


def _unknown(kind: Kind, costs: Costs, tables: float) -> Read:
    """The same where it knows none: each is loaded at each of its commits."""
    return (costs.commit + costs.metadata).times(tables * per_hour(kind))


def polled(kind: Kind, costs: Costs, tables: float) -> Read:
    """An hour of the loop; several commits within a minute are one plan."""
    looks = HOUR_S / MINUTE_S
    each = costs.metadata.times(looks) + costs.plan.times(min(per_hour(kind), looks))
    return each.times(tables)


def per_hour(kind: Kind) -> float:
    """Commits of one table; of a bursty one, its pauses counted in."""
    busy = kind.burst_s / (kind.burst_s + kind.pause_s) if kind.burst_s else 1.0
    return HOUR_S / kind.period_s * busy


def _summed(reads: Iterator[Read]) -> Read:
    return sum(reads, Read())


def _costs(lake: Lake, machine: Java, kind: Kind) -> Costs:
    """Means over the newer half of a table's commits: what it costs at that age."""
    name = f"polled_{kind.name}"
    table = made(machine, name)
    commits = max(2, min(MOST_COMMITS, int(RETAINED_S / HOUR_S * per_hour(kind))))
    seen = []
    for number in range(commits):
        upsert = number % 10 < round(10 * kind.upserts)
        commit(machine, table, kind.files, upsert)
        if number >= commits // 2:
            seen.append(_seen(lake, name))
    return Costs(*(_summed(iter(reads)).times(1 / len(seen)) for reads in zip(*seen, strict=True)))


def _seen(lake: Lake, name: str) -> tuple[Read, Read, Read]:
    """Metadata file; the last commit, by the enricher's own code; a plan of the table."""
    table = lake.find(name)
    assert table is not None
    metadata = Read(1, len(table.io.new_input(table.metadata_location)))
    counted = CountingIO(table.io)
    manifests = read_manifest_list(counted, table.head("main").manifest_list)
    plan = Read(1 + len(manifests), counted.bytes + sum(one.length for one in manifests))
    return metadata, _enriched(table), plan


def _enriched(table: LoadedTable) -> Read:
    facts = facts_of(table)
    counted = CountingIO(facts.io)
    subject = ChangeContext(table.identity, "main", "bench", 0)
    [change] = snapshot_delta(
        subject, to_snapshot_added(table.head("main")), replace(facts, io=counted)
    )
    assert len(change.partitions) == PARTITIONS
    return Read(counted.files, counted.bytes)


class CountingIO(FileIO):
    """Counts what is opened to be read, and its bytes."""

    def __init__(self, inner: FileIO) -> None:
        super().__init__(EMPTY_DICT)
        self._inner = inner
        self.files = self.bytes = 0

    def new_input(self, location: str) -> InputFile:
        """Of a file that is read whole."""
        found = self._inner.new_input(location)
        self.files, self.bytes = self.files + 1, self.bytes + len(found)
        return found

    def new_output(self, location: str) -> OutputFile:
        """Nothing is written."""
        raise NotImplementedError(location)

    def delete(self, location: str | InputFile | OutputFile) -> None:
        """Nothing is removed."""
        raise NotImplementedError(str(location))


def made(machine: Java, name: str) -> Any:
    """A table of ten columns, partitioned by the first."""
    iceberg = machine.jvm.org.apache.iceberg
    fields = [
        {"id": number, "name": f"c{number}", "required": False, "type": "long"}
        for number in range(1, COLUMNS + 1)
    ]
    schema = iceberg.SchemaParser.fromJson(
        json.dumps({"type": "struct", "schema-id": 0, "fields": fields})
    )
    spec = iceberg.PartitionSpec.builderFor(schema).identity("c1").build()
    properties = machine.jvm.java.util.HashMap()
    properties.put("format-version", "2")
    return machine.catalog.createTable(machine.identifier(name), schema, spec, properties)


def commit(machine: Java, table: Any, files: int, upsert: bool) -> None:
    """`files` data files, and an equality delete for upserts, into each partition. The files
    themselves are nowhere: nobody reads them."""
    change = table.newRowDelta() if upsert else table.newAppend()
    add = change.addRows if upsert else change.appendFile
    for partition in range(PARTITIONS):
        for _ in range(files):
            add(content_file(machine.jvm, table, _file(table, partition, "data")))
        if upsert:
            text = _file(table, partition, "equality-deletes")
            change.addDeletes(content_file(machine.jvm, table, text))
    change.commit()


def _file(table: Any, partition: int, content: str) -> str:
    """As a writer describes it: sizes, counts and bounds of each column."""
    ids = list(range(1, (COLUMNS if content == "data" else 1) + 1))
    size = 1_500_000 + uuid.uuid4().int % 100_000
    bounds = {"keys": ids, "values": [uuid.uuid4().hex[:16] for _ in ids]}
    counts = {"keys": ids, "values": [50_000 for _ in ids]}
    body = {
        "spec-id": 0,
        "content": content,
        "file-path": f"{table.location()}/data/c1={partition}/{uuid.uuid4()}-00001.parquet",
        "file-format": "parquet",
        "partition": [partition],
        "file-size-in-bytes": size,
        "record-count": 50_000,
        "column-sizes": {"keys": ids, "values": [size // COLUMNS for _ in ids]},
        "value-counts": counts,
        "null-value-counts": {"keys": ids, "values": [0 for _ in ids]},
        "lower-bounds": bounds,
        "upper-bounds": bounds,
        **({} if content == "data" else {"equality-ids": [1]}),
    }
    return json.dumps(body)


def _shown(costs: Costs) -> dict[str, dict[str, float]]:
    return {name: getattr(costs, name).as_json() for name in ("metadata", "commit", "plan")}
