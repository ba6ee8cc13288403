"""What tests ask a driver to do, in its own process."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from firnline_domain.errors import Misconfigured
from firnline_domain.records.orders import CompareRows, RewriteFiles
from firnline_domain.records.results import RewriteFinished
from firnline_iceberg.planning import live_files
from firnline_iceberg.storage import TableStorage
from firnline_iceberg.sweeping import Sweeper
from firnline_worker import executor_check, set_sending
from firnline_worker.comparing import Comparer
from firnline_worker.expiry import Expirer

from tests.kit.expiries import expire
from tests.kit.spark_driver import Parts

FILES, ROWS = 4, 1_000


def make(parts: Parts, namespace: str, rows: int = ROWS) -> list[Any]:
    """A table of some files with equality deletes for each; its rows."""
    lab = parts.lab(namespace)
    lab.create("id BIGINT, v STRING")
    made = f"SELECT id, concat('v', id) v FROM range(0, {FILES * rows}, 1, {FILES})"
    lab.sql(f"INSERT INTO {{t}} {made}")
    lab.equality_delete(["id"], ", ".join(f"({file * rows + 5}L)" for file in range(FILES)))
    return lab.rows()


def rewrite(parts: Parts, namespace: str, inline: int = set_sending.INLINE_BYTES) -> Any:
    """Natively; the result, which nobody has committed."""
    return rewrite_of(parts, order(parts, namespace), inline)


def order(parts: Parts, namespace: str) -> RewriteFiles:
    """As the planner would send it."""
    return parts.lab(namespace).order()


def rewrite_of(parts: Parts, ordered: RewriteFiles, inline: int = set_sending.INLINE_BYTES) -> Any:
    """Of an order that came by the topic, be it once more."""
    set_sending.INLINE_BYTES = inline
    return parts.rewriter.rewrite(ordered, lambda _: None)


def commit(parts: Parts, namespace: str, result: RewriteFinished) -> list[Any]:
    """The rows afterwards."""
    lab = parts.lab(namespace)
    lab.commit(result)
    return lab.rows()


def sweep(parts: Parts, namespace: str) -> list[str]:
    """As if all lists were old; what went."""
    hour_ms = 3_600_000
    later = lab_now(parts) + 1_000 * hour_ms
    sweeper = Sweeper(parts.tables, lambda: later, hour_ms, lambda _: later)
    return sweeper.sweep(parts.lab(namespace).name).removed


def lab_now(parts: Parts) -> int:
    return parts.rewriter.now_ms()


def live_names(parts: Parts, namespace: str) -> list[str]:
    """Of the table's data files."""
    table = parts.lab(namespace).table()
    files = live_files(table, table.head_id("main")).data
    return sorted(file.path.rsplit("/", 1)[1] for file in files)


def hand_over(parts: Parts, namespace: str) -> int | None:
    """Iceberg's own action; the snapshot that it committed."""
    order = parts.lab(namespace).order()
    table = parts.tables.load(order.table)
    return parts.rewriter.handover.rewrite_data_files(order, table, "by this test")


def expire_all(parts: Parts, namespace: str) -> tuple[int, int]:
    """All snapshots but the newest: how many went, and how many files."""
    now, name = lab_now(parts), parts.lab(namespace).name
    expirer = Expirer(parts.tables, parts.java, lambda _: (), "w1", lambda: now)
    done = expirer.expire(expire("e1", name, now, now, retain_last=1, agreed=True))
    return done.expired, done.deleted_files


def compare(parts: Parts, namespace: str, task: str) -> str:
    """What the rows before and after the newest commit are to each other."""
    lab = parts.lab(namespace)
    order = CompareRows(
        task, lab.name, "main", lab.scopes()[0], (lab.table().head_id("main") or 0,), 1,
        "a person", lab_now(parts),
    )  # fmt: skip
    comparer = Comparer(parts.tables, parts.java, "w1", 1 << 30, lambda: lab_now(parts))
    done = comparer.compare(order)
    return f"{done.outcome} {done.detail}"


def rows(parts: Parts, namespace: str) -> list[Any]:
    parts.spark.catalog.clearCache()
    return parts.lab(namespace).rows()


def checked(parts: Parts, unreachable: str = "") -> list[str]:
    """What executors lack. `unreachable`: an endpoint to try instead of the storage's."""
    sample = executor_check.first_sample(parts.tables)
    if unreachable and sample is not None:
        settings = {**sample.storage.settings, "s3.endpoint": unreachable}
        settings["s3.connect-timeout"] = "1"
        sample = replace(sample, storage=TableStorage(settings, sample.storage.location))
    try:
        executor_check.require(parts.spark, sample)
    except Misconfigured as error:
        return str(error).splitlines()
    return []
