"""What tests ask a driver to do, in its own process."""

from __future__ import annotations

from typing import Any

from firnline_domain.records.results import RewriteFinished
from firnline_iceberg.planning import live_files
from firnline_iceberg.sweeping import Sweeper
from firnline_worker import set_sending

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
    set_sending.INLINE_BYTES = inline
    lab = parts.lab(namespace)
    return parts.rewriter.rewrite(lab.order(), lambda _: None)


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
