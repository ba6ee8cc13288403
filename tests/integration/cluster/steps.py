"""What tests ask a driver to do, in its own process."""

from __future__ import annotations

import threading
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

from firnline_domain.errors import Misconfigured
from firnline_domain.records.orders import CompareRows, ExpireSnapshots, RewriteFiles
from firnline_domain.records.results import RewriteFinished
from firnline_iceberg.expiry import file_cleanup
from firnline_iceberg.removal.sweep import OutputSweeper
from firnline_iceberg.scan.planning import live_files
from firnline_iceberg.storage.file_io import TableStorage
from firnline_worker.delete_sets import send_to_executors
from firnline_worker.host.out_of_memory import exhausted_memory, is_out_of_memory
from firnline_worker.rewrite.compare_rows import Comparer
from firnline_worker.spark import executor_check
from firnline_worker.table_actions import expire_snapshots as expiry
from firnline_worker.table_actions.expire_snapshots import Expirer

from tests.kit.expiries import expire
from tests.kit.spark_driver import Parts

FILES, ROWS = 4, 1_000
LIMIT_MB, HELD_S = 2_048, 20.0  # more than any executor of these tests may have


def make(parts: Parts, namespace: str, rows: int = ROWS) -> list[Any]:
    """A table of some files with equality deletes for each; its rows."""
    lab = parts.lab(namespace)
    lab.create("id BIGINT, v STRING")
    made = f"SELECT id, concat('v', id) v FROM range(0, {FILES * rows}, 1, {FILES})"
    lab.sql(f"INSERT INTO {{t}} {made}")
    lab.equality_delete(["id"], ", ".join(f"({file * rows + 5}L)" for file in range(FILES)))
    return lab.rows()


def rewrite(parts: Parts, namespace: str, inline: int = send_to_executors.INLINE_BYTES) -> Any:
    """Natively; the result, which nobody has committed."""
    return rewrite_of(parts, order(parts, namespace), inline)


def order(parts: Parts, namespace: str) -> RewriteFiles:
    """As the planner would send it."""
    return parts.lab(namespace).order()


def rewrite_of(
    parts: Parts, ordered: RewriteFiles, inline: int = send_to_executors.INLINE_BYTES
) -> Any:
    """Of an order that came by the topic, be it once more."""
    send_to_executors.INLINE_BYTES = inline
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
    sweeper = OutputSweeper(parts.tables, lambda: later, hour_ms, lambda _: later)
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
    return expire_of(parts, expire_order(parts, namespace))


def expire_order(parts: Parts, namespace: str) -> ExpireSnapshots:
    """As the planner would send it: all snapshots but those that refs name."""
    now, name = lab_now(parts), parts.lab(namespace).name
    return expire("e1", name, now, now, retain_last=1, agreed=True)


def expire_of(parts: Parts, ordered: ExpireSnapshots) -> tuple[int, int]:
    """Of an order that came by the topic, be it once more."""
    now = lab_now(parts)
    clocks = {"the storage": now}
    expirer = Expirer(
        parts.tables, parts.java, lambda _: (), "w1", lambda: now, ask=lambda _: clocks
    )
    done = expirer.expire(ordered)
    return done.expired, done.deleted_files


def expire_halfway(
    parts: Parts, ordered: ExpireSnapshots, removals: int | None, stands: Path
) -> None:
    """Never returns: stands still before a further file would go, and makes the file `stands`.
    None: before its commit, when its journal is written."""

    def stand() -> None:
        stands.touch()
        threading.Event().wait()

    write, remove = expiry.write_journal, file_cleanup._remove_with_retries
    turn, gone = threading.Lock(), list[str]()

    def written(*given: Any) -> None:
        write(*given)
        if removals is None:
            stand()

    def removed(removal: Any, paths: list[str]) -> int:
        with turn:
            before = len(gone)
            for path in paths:  # S3 removes a thousand at once and would not stand between two
                if len(gone) == (removals or 0):
                    stand()
                gone.extend([path] * remove(removal, [path]))
        return len(gone) - before

    expiry.write_journal, file_cleanup._remove_with_retries = written, removed
    expire_of(parts, ordered)


def history(parts: Parts, namespace: str) -> list[list[Any]]:
    """Seven snapshots, the first with a tag, most of them of rewrites on executors and of their
    inputs; the rows now and at the tag."""
    kept = make(parts, namespace)
    lab = parts.lab(namespace)
    head = lab.table().head_id("main")
    parts.java.load(lab.name).java.manageSnapshots().createTag("kept", head).commit()
    for _ in range(2):
        commit(parts, namespace, rewrite(parts, namespace))
        lab.insert("(-1L, 'new'), (-2L, 'new')")
        lab.equality_delete(["id"], "(-2L), (7L)")
    return [lab.rows(), kept]


def rows_and_kept(parts: Parts, namespace: str) -> list[list[Any]]:
    """As `history` has them, read now."""
    kept = parts.lab(namespace).sql("SELECT * FROM {t} VERSION AS OF 'kept'").collect()
    return [rows(parts, namespace), sorted((tuple(row) for row in kept), key=repr)]


def reachable(parts: Parts, namespace: str) -> tuple[int, set[str]]:
    """How many snapshots, and names of all files that some of them has."""
    table = parts.lab(namespace).table()
    found = set[str]()
    for snapshot in table.snapshots:
        manifests = table.manifests_of(snapshot)
        entries = (one.path for each in manifests for one in table.entries_of(each) if one.is_live)
        found |= {snapshot.manifest_list, *(one.path for one in manifests), *entries}
    return len(table.snapshots), {path.rpartition("/")[2] for path in found}


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


def exhaust_memory(parts: Parts) -> tuple[bool, str, str]:
    """A stage whose Python takes more than an executor has: what its failure is to a worker."""

    def fill(_: Any) -> list[int]:
        held = [b"x" * (64 << 20) for _ in range(LIMIT_MB // 64)]
        time.sleep(HELD_S)  # the manager looks now and then
        return [len(held)]

    try:
        parts.spark.sparkContext.parallelize([0], 1).mapPartitions(fill).collect()
    except Exception as error:
        return is_out_of_memory(error), str(exhausted_memory(error)), str(error)
    return False, "", "it had room"


def checked(parts: Parts, unreachable: str = "") -> list[str]:
    """What executors lack. `unreachable`: an endpoint to try instead of the storage's."""
    sample = executor_check.first_sample(parts.tables)
    if unreachable and sample is not None:
        settings = {**sample.storage.settings, "s3.endpoint": unreachable}
        settings["s3.connect-timeout"] = "1"
        sample = replace(sample, storage=TableStorage(settings, sample.storage.location))
    try:
        executor_check.check_executors(parts.spark, sample)
    except Misconfigured as error:
        return str(error).splitlines()
    return []
