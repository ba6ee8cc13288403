"""Firnline's worker, as it runs, without its topics: orders come by the pipe."""

from __future__ import annotations

import pickle
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from firnline_domain.identity import MAIN, Scope, TableName, task_id
from firnline_domain.records.orders import RewriteFiles
from firnline_domain.records.results import RewriteFinished
from firnline_iceberg.table.catalog_client import Tables
from firnline_worker.delete_sets.cache import DeleteSetCache
from firnline_worker.rewrite.iceberg_fallback import Handover
from firnline_worker.rewrite.rewriter import Rewriter
from firnline_worker.settings import WorkerSettings
from firnline_worker.spark.java_api import JavaTables
from firnline_worker.spark.session import SparkStage, start_session

from bench.rewrite.child import Act, Question, serve
from bench.rewrite.jars import class_path, use_store

HOUR_MS = 3_600_000
UNITS = {"m": 20, "g": 30}  # of a heap as the JVM takes it: bits


@dataclass(frozen=True)
class Worker:
    """Runs a table's orders at once, as many as the worker would."""

    rewriter: Rewriter
    at_once: int
    folder: Path

    def act(self, question: Question) -> dict[str, Any]:
        """One order per scope; results are left in a file for the committer."""
        orders = [_order(question, number) for number in range(len(question["scopes"]))]
        with ThreadPoolExecutor(self.at_once) as pool:
            results = list(pool.map(self._rewrite, orders))
        path = self.folder / f"{question['table']}.results"
        path.write_bytes(pickle.dumps(results))
        return _told(results, path)

    def _rewrite(self, order: RewriteFiles) -> RewriteFinished:
        return self.rewriter.rewrite(order, lambda _: None)


def start(given: Question) -> Act:
    """A warm session with the worker's own configuration."""
    folder = Path(given["folder"])
    settings = _settings(given, folder)
    use_store(given)
    spark = start_session(settings)
    stage = SparkStage(spark)
    stage.warm_up()
    tables = Tables(settings.connection, **given.get("store", {}))
    java = JavaTables(spark, settings.connection.name)
    handover = Handover(java, tables, lambda _: nullcontext())
    cache = DeleteSetCache(Path(settings.state_dir))
    rewriter = Rewriter(
        tables, java, cache, stage, handover, "bench", settings.delete_set_bytes, _now_ms
    )
    return Worker(rewriter, settings.tasks_at_once, folder).act


def _settings(given: Question, folder: Path) -> WorkerSettings:
    optional = {
        name: given[name] for name in ("tasks_at_once", "delete_set_bytes") if name in given
    }
    return WorkerSettings(
        kafka="",
        redis="",
        catalog_uri=None if "config" in given else given["uri"],
        config=given.get("config"),
        iceberg_jar=class_path(given),
        state_dir=str(folder / "state"),
        spark_master=given.get("master", f"local[{given['cores']}]"),
        heap_bytes=int(given["heap"][:-1]) << UNITS[given["heap"][-1]],
        **optional,
    )


def _order(question: Question, number: int) -> RewriteFiles:
    table = TableName(question["uuid"], tuple(question["namespace"]), question["table"])
    scope = Scope(*question["scopes"][number])
    now, action = _now_ms(), question.get("action", "compact")
    text = f"{scope.spec_id}{scope.partition}"
    return RewriteFiles(
        task_id=task_id(table.uuid, table.name, text, action, now),
        table=table,
        ref=MAIN,
        scope=scope,
        action=action,
        reason="bench",
        trigger_snapshot_id=question["head"],
        attempt=1,
        ordered_at_ms=now,
        deadline_ms=now + HOUR_MS,
        min_dead_ratio=question.get("min_dead_ratio", 0.0),
    )


def _told(results: list[RewriteFinished], path: Path) -> dict[str, Any]:
    groups = [group for result in results for group in result.groups]
    modes = {result.handover_reason or result.mode.value for result in results}
    return {
        "results": str(path),
        "modes": sorted(modes),
        "rows_in": sum(group.rows_in for group in groups),
        "rows_masked": sum(group.rows_masked for group in groups),
        "measures": [result.measures for result in results],
    }


def _now_ms() -> int:
    return int(time.time() * 1000)


if __name__ == "__main__":
    serve(start)
