"""`make bench-actions`: expiry, orphans, manifests, dangling deletes, sorts beside Iceberg's own,
in turn, in one JVM; and what statistics cost. Prints each figure, leaves
bench/results/actions.json."""

from __future__ import annotations

import argparse
import json
import os
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from firnline_domain.base.values import replace
from firnline_domain.identity import MAIN, TableName
from firnline_domain.policy.table_action.remove_dangling_deletes import DanglingDeletes
from firnline_domain.policy.table_action.rewrite_manifests import ManifestRewrite
from firnline_domain.records.orders import ExpireSnapshots, TableOrder
from firnline_iceberg.commit.java_commits import JavaCommits
from firnline_iceberg.connection.connection import CatalogConnection
from firnline_iceberg.scan.planning import live_files
from firnline_iceberg.table.catalog_client import Tables
from firnline_local.processes.ports import free_port
from firnline_local.processes.process import run_process
from firnline_local.servers import catalog as catalogs
from firnline_local.servers.artifacts import iceberg_jar
from firnline_worker.spark.java_api import JavaTables, SparkJvm
from firnline_worker.table_actions.expire_snapshots import Expirer
from firnline_worker.table_actions.remove_dangling_deletes import DanglingDeleteRemover
from firnline_worker.table_actions.rewrite_manifests import ManifestRewriter
from pyiceberg.catalog.rest import RestCatalog
from pyspark.sql import SparkSession

from bench.actions.history import BETWEEN_MS, START_MS, History, grown, stored
from bench.actions.orphans import orphans
from bench.actions.sessions import session
from bench.actions.sorting import Growing, growing
from bench.actions.statistics import statistics
from bench.rewrite.trees import Usage, Watch

RESULTS = Path(__file__).parents[1] / "results" / "actions.json"
OURS, STOCK = "firnline", "iceberg"
DAY_S = 86_400


@dataclass
class Site:
    """One catalog, one Spark session, and what is to be measured on them."""

    folder: Path
    rest: RestCatalog
    tables: Tables
    spark: SparkSession
    uri: str
    scale: float
    days: int
    commits_a_day: int
    figures: list[dict[str, Any]] = field(default_factory=list)

    @property
    def java(self) -> JavaTables:
        return JavaTables(self.spark, "lake")

    @property
    def actions(self) -> Any:
        return self.java.iceberg.spark.actions.SparkActions.get(self.java.session)

    def table(self, name: str, history: History) -> TableName:
        """Registers it."""
        place = history.metadata(history.root / "metadata" / f"00001-{name}.metadata.json")
        made = self.rest.register_table(("bench", name), place)
        return TableName(str(made.metadata.table_uuid), ("bench",), name)

    def measure(self, part: str, engine: str, run: Callable[[], Any], **more: Any) -> Any:
        with Watch(os.getpid()) as watch:
            found = run()
        usage: Usage = watch.usage
        row = {"part": part, "engine": engine, "wall_s": usage.wall_s, "cpu_s": usage.cpu_s}
        row |= {"mb_before": usage.pss_before >> 20, "mb_peak": usage.pss_peak >> 20, **more}
        self.figures.append({k: round(v, 2) if isinstance(v, float) else v for k, v in row.items()})
        print(self.figures[-1], flush=True)
        return found


def now_ms() -> int:
    return int(time.time() * 1000)


def order(table: TableName, action: str, **numbers: float) -> TableOrder:
    at = now_ms()
    return TableOrder("bench", table, action, "bench", 1, 1, at, at + 3_600_000, numbers)


def expire(site: Site) -> None:
    """Half a million rows of manifest lists at scale 0.1, eight million at 1."""
    snapshots, left = int(10_000 * site.scale), {}
    for engine in (OURS, STOCK):
        history = grown(site.folder / f"expire_{engine}", snapshots)
        table = site.table(f"expire_{engine}", history)
        cut_off = START_MS + (snapshots - 10) * BETWEEN_MS
        before = sum(1 for _ in stored(history.root))
        ours = _ours(_expirer(site), table, cut_off)
        run = ours if engine == OURS else _stocks(site, table, cut_off)
        manifests = len(history._listed)
        site.measure("expire", engine, run, snapshots=snapshots, manifests=manifests, files=before)
        left[engine] = sum(1 for _ in stored(history.root))
        print(engine, "left", left[engine], "of", before, flush=True)
        shutil.rmtree(history.root)
    assert abs(left[OURS] - left[STOCK]) <= 4, left  # of metadata files


def expire_again(site: Site) -> None:
    """Ten snapshots of a table that retains thousands: by a worker that has expired others of it a
    while ago, and by one that has just begun."""
    snapshots = int(3_000 * site.scale)
    history = grown(site.folder / "expire_again", snapshots)
    table, known = site.table("expire_again", history), _expirer(site)
    gone = snapshots // 3

    def until(expirer: Expirer) -> Callable[[], None]:
        return _ours(expirer, table, START_MS + gone * BETWEEN_MS)

    until(known)()
    for engine, expirer in ((OURS, known), ("firnline, just begun", _expirer(site))):
        gone += 10
        site.measure("expire_again", engine, until(expirer), retained=snapshots - gone)
    shutil.rmtree(history.root)


def _expirer(site: Site) -> Expirer:
    return Expirer(site.tables, site.java, lambda _: (), "bench", now_ms)


def _ours(expirer: Expirer, table: TableName, cut_off: int) -> Callable[[], None]:
    at = now_ms()
    asked = ExpireSnapshots(
        "bench", table, "expire", "old_snapshots", 1, 1, at, at + 3_600_000,
        older_than_ms=cut_off, retain_last=1, protected_snapshot_ids=(), agreed=True,
    )  # fmt: skip

    def run() -> None:
        number = 0
        while (result := expirer.expire(replace(asked, task_id=f"b{number}"))).expired:
            number += 1
        assert result.refused_reason is None, result

    return run


def _stocks(site: Site, table: TableName, cut_off: int) -> Callable[[], None]:
    def run() -> None:
        action = site.actions.expireSnapshots(site.java.load(table).java)
        action.expireOlderThan(cut_off).retainLast(1).execute()

    return run


def manifests(site: Site) -> None:
    """Commits of two files, none merged; and the same files written at once."""
    commits = int(5_000 * site.scale)
    history = History(site.folder / "manifests", every=10 * commits)
    for number in range(commits):
        history.commit(forgotten=number < commits - 1)
    table = site.table("manifests", history)
    at_once = History(site.folder / "at_once", every=10)
    at_once.commit_many(2 * commits)
    reference = site.table("at_once", at_once)
    planning = {"before": _planned(site, table), "at once": _planned(site, reference)}
    rewriter = ManifestRewriter(site.tables, site.java, "bench", now_ms)
    asked = order(table, ManifestRewrite.name)
    site.measure("manifests", OURS, lambda: rewriter.rewrite(asked), commits=commits)
    planning["after"] = _planned(site, table)
    for name, seconds in planning.items():
        site.figures.append({"part": "planning", "engine": name, "wall_s": round(seconds, 3)})
        print(site.figures[-1], flush=True)


def _planned(site: Site, table: TableName) -> float:
    """Seconds of the fastest of seven plans by Iceberg's Java scan."""
    found = []
    for _ in range(7):
        java = site.java.load(table).java
        begin = time.monotonic()
        tasks = java.newScan().planFiles()
        each, count = tasks.iterator(), 0
        while each.hasNext() and count < 1:
            each.next()
            count += 1
        tasks.close()
        site.java.iceberg.relocated.com.google.common.collect.Iterables.size(
            java.newScan().planFiles()
        )
        found.append(time.monotonic() - begin)
    return min(found)


def dangling(site: Site) -> None:
    """Position-delete files of data files that are gone, and some that are not."""
    deletes = int(90_000 * site.scale)
    for engine in (OURS, STOCK):
        history = History(site.folder / f"dangling_{engine}", every=5)
        for _ in range(63):
            history.commit()
        history.mark(deletes)
        table = site.table(f"dangling_{engine}", history)
        if engine == OURS:
            commits = JavaCommits(SparkJvm(site.spark), site.uri)
            remover = DanglingDeleteRemover(site.tables, commits, "bench", now_ms)
            asked = order(table, DanglingDeletes.name)
            site.measure("dangling", engine, partial(remover.remove, asked), deletes=deletes)
        else:
            action = site.actions.removeDanglingDeleteFiles(site.java.load(table).java)
            site.measure("dangling", engine, action.execute, deletes=deletes)
        loaded = site.tables.load(table)
        left = len(live_files(loaded, loaded.head_id(MAIN)).deletes)
        print(engine, "left", left, flush=True)
        site.figures[-1]["left"] = left


def sort(site: Site) -> None:
    """Ours; a full sort every day; and full sorts at the rarest pace at which readers open no more
    files than with ours, and a commit less often."""
    per_day = site.commits_a_day
    with growing(site.spark, site.uri, site.folder, now_ms, per_day) as made:
        ours = _sorted(site, made, 0)
        opened = sum(ours.opened) / len(ours.opened)
        rarest = max(int(2 * opened - 1), 1)  # n commits between two sorts: (n + 1) / 2 files
        for every in dict.fromkeys((rarest, rarest + 1, per_day)):
            _sorted(site, made, every)
    assert len({row["rows"] for row in site.figures}) == 1


def _sorted(site: Site, made: Callable[[str, int], Growing], every: int) -> Growing:
    table, days = made(f"sorted_{every}", every), site.days

    def grow() -> None:
        for number in range(1, days + 1):
            table.day(number)

    who = STOCK if every else OURS
    site.measure("sort", who, grow, every=every, days=days, commits_a_day=site.commits_a_day)
    site.figures[-1] |= {
        "written_mb": round(table.written() / 1e6, 2),
        "left_out": round(sum(table.left_out) / len(table.left_out), 4),
        "opened": round(sum(table.opened) / len(table.opened), 2),
        "files": table.files,
        "rows": table.rows(),
        "ordered": dict(table.policy.ordered),
        "done": dict(table.policy.done),
        "opened_by_commit": [round(one, 1) for one in table.opened],
        "left_out_by_commit": [round(one, 4) for one in table.left_out],
    }
    print(site.figures[-1], flush=True)
    return table


def describe(site: Site) -> None:
    """Distinct values of three columns, and partition statistics."""
    statistics(site, site.java, site.tables, int(10_000_000 * site.scale), now_ms)


ORPHANS = "orphans"  # its sides are processes of their own
PARTS = {
    "expire": expire,
    "expire_again": expire_again,
    "manifests": manifests,
    "dangling": dangling,
    "sort": sort,
    "statistics": describe,
}


@contextmanager
def opened(folder: Path, scale: float, days: int, commits_a_day: int) -> Iterator[Site]:
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    port = free_port()
    command = catalogs.command(folder / "catalog", port)
    with run_process(command, folder / "catalog.log"):
        uri = catalogs.uri(port)
        rest = RestCatalog("lake", uri=uri)
        rest.create_namespace(("bench",))
        spark = session(
            CatalogConnection("lake", {"uri": uri}).spark_settings(), str(iceberg_jar())
        )
        yield Site(folder, rest, Tables(uri), spark, uri, scale, days, commits_a_day)
        spark.stop()


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--part", choices=[ORPHANS, *PARTS, "all"], default="all")
    parser.add_argument("--scale", type=float, default=1.0)
    parser.add_argument("--days", type=int, default=60, help="of the sorts")
    parser.add_argument("--commits", type=int, default=1, help="a day, of the sorts")
    parser.add_argument("--folder", type=Path, default=Path(".firnline/bench"))
    given = parser.parse_args()
    chosen = [ORPHANS, *PARTS] if given.part == "all" else [given.part]
    folder = given.folder.absolute() / "actions"
    rows: dict[str, list[dict[str, Any]]] = {}
    if ORPHANS in chosen:
        shutil.rmtree(folder, ignore_errors=True)
        rows[ORPHANS] = orphans(folder, given.scale)
        chosen.remove(ORPHANS)
    if chosen:
        with opened(folder, given.scale, given.days, given.commits) as site:
            for name in chosen:
                PARTS[name](site)
        rows |= {name: [one for one in site.figures if _of(one, name)] for name in chosen}
    known = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    known |= {name: {"scale": given.scale, "rows": found} for name, found in rows.items()}
    RESULTS.write_text(json.dumps(known, indent=1) + "\n")


def _of(row: dict[str, Any], part: str) -> bool:
    return row["part"] == part or (part == "manifests" and row["part"] == "planning")


if __name__ == "__main__":
    main()
