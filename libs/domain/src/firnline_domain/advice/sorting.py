"""Advice about the order of a table's rows, from what its readers filter by."""

from __future__ import annotations

import zlib

from firnline_domain.advice.finding import Known, RuleFinding
from firnline_domain.counters.activity.filters import Filters, Use
from firnline_domain.identity import TableName

RULE = "missing_sort_order"
SCANS = 20.0  # in a day: to sort costs a rewrite of everything, and a shuffle with each write
SCANS_SHARE = 0.2  # of all scans: the others have nothing of it
FILES_READ = 0.5  # of the table's files, by each of these scans: less, and an order is there
DATA_FILES = 16  # below, there is not much to leave out
# Files of the target size in the mean partition, 2 GB by Iceberg's default: what lies in order is
# left out by whole files, a quarter of a partition each.
TARGETS = 4.0


def missing_sort_order(known: Known, ease: float) -> RuleFinding | None:
    """Find a column that many scans filter by while they read most of the files."""
    filters, files = known.table.work.filters, known.table.counters.totals.holds.all_data.files
    targets = known.spread.mean_bytes / max(known.target_bytes, 1)
    if filters is None or files < DATA_FILES * ease or targets < TARGETS * ease:
        return None
    given = known.table.work.advice.get(RULE)
    filters = filters.decay_to(known.now_ms)
    use = most_filtered(filters, ease, given.mark if given else 0)
    if use is None:
        return None
    share, read = use.scans / filters.scans, use.whole / use.scans
    return RuleFinding(
        f"{share:.0%} of all scans, {use.scans:,.0f} in a day, filter by {use.column} and "
        f"read {read:.0%} of {files:,} data files nevertheless",
        _sort_remedy(known.table.counters.table, use.column, filters.layout.ordered_by),
        {
            "scans_in_a_day": use.scans,
            "share_of_scans": share,
            "share_of_files_read": read,
            "data_files": files,
            "targets_in_partition": targets,
        },
        {
            "scans_in_a_day": SCANS,
            "share_of_scans": SCANS_SHARE,
            "share_of_files_read": FILES_READ,
            "data_files": DATA_FILES,
            "targets_in_partition": TARGETS,
        },
        lead=use.scans,
        mark=column_mark(use.column),
    )


def most_filtered(filters: Filters, ease: float, mark: int) -> Use | None:
    """Return the column to sort by: the one with `mark` as long as it is good enough, or the one
    that most scans filter by; None if none is good enough."""
    misses = [use for use in filters.uses if _misses_order(filters, use, ease)]
    return max(misses, key=lambda one: (column_mark(one.column) == mark, one.scans), default=None)


def column_mark(column: str) -> int:
    """Return the CRC-32 of a column's name. A recommendation with another mark is published
    again."""
    return zlib.crc32(column.encode())


def quote_names(*names: str) -> str:
    """Return nested names as an identifier of Spark's SQL."""
    return ".".join(f"`{name.replace('`', '``')}`" for name in names)


def _misses_order(filters: Filters, use: Use, ease: float) -> bool:
    """Return True if many scans filter by the column, read most files, and gain more from an order
    by it than from the present one."""
    layout = filters.layout
    if use.column in (*layout.partitioned_by, *layout.ordered_by[:1]):
        return False
    if use.scans < SCANS * ease or use.scans < filters.scans * SCANS_SHARE * ease:
        return False
    if use.whole <= use.scans * FILES_READ * ease:
        return False
    # A table is in one order: the present one must be of less use to its readers.
    served = max(map(filters.use_of, layout.ordered_by[:1]), default=0.0)
    return use.scans > served * ease


def _sort_remedy(table: TableName, column: str, ordered_by: tuple[str, ...]) -> str:
    name, by = quote_names(*table.namespace, table.name), quote_names(*column.split("."))
    if column.isidentifier():  # at the top level, and not in need of quotes
        there = (
            f"ALTER TABLE {name} SET TBLPROPERTIES ('firnline.sort' = '{column}') (or "
            f"'zorder({column}, ...)' with others that readers filter by): Firnline sorts what is "
            "there and what comes, where files overlap"
        )
    else:
        there = "rewrite_data_files(strategy => 'sort', options => map('rewrite-all', 'true'))"
    return (
        f"ALTER TABLE {name} WRITE ORDERED BY {by} (Spark"
        + (f"; it replaces the order by {', '.join(ordered_by)}" if ordered_by else "")
        + ") orders what is written from then on, by a shuffle with each write; what is there, by "
        + there
    )
