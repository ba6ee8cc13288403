"""The demo must be able to fail."""

from __future__ import annotations

import io
from dataclasses import replace

from firnline_demo.measure import TableHealth, Upkeep
from firnline_demo.model import RowDifference
from firnline_demo.report import TableReport, judge, print_report, size_text
from rich.console import Console

SAME = RowDifference(0, 0, ())
GOOD = TableReport(
    name="demo.clicks",
    writer="appends",
    commits=9,
    writer_retries=0,
    before=TableHealth(9, 4, 1_000, 0.5, 3_000, 100),
    after=TableHealth(1, 0, 900, 0.1, 900, 100),
    upkeep=Upkeep(1, 9, 4),
    difference=SAME,
)


def test_rows_that_differ_fail_it() -> None:
    bad = replace(GOOD, difference=RowDifference(0, 1, ("resurrected (1,)",)))
    end = judge([GOOD, bad])
    assert end.code == 1
    assert "resurrected (1,)" in end.text


def test_nothing_compacted_fails_it() -> None:
    assert judge([replace(GOOD, upkeep=Upkeep(0, 0, 0))]).code == 2


def test_rows_verified() -> None:
    end = judge([GOOD])
    assert end.code == 0
    assert end.text.startswith("rows verified")


def test_the_table_fits_eighty_columns() -> None:
    out = io.StringIO()
    large = TableHealth(1_200, 1_200, 123_400_000, 12.34, 567_800_000, 1_234_567)
    print_report(Console(file=out, width=80), [replace(GOOD, name="demo.accounts", before=large)])
    text = out.getvalue()
    assert "before" in text
    assert "demo.accounts" in text
    assert "…" not in text


def test_sizes() -> None:
    assert [size_text(n) for n in (12, 1_500, 2_500_000, 10**12)] == [
        "12 B",
        "1.5 kB",
        "2.5 MB",
        "1000.0 GB",
    ]
