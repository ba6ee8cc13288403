"""Results as the page shows them."""

from __future__ import annotations

from xml.etree import ElementTree

import pytest
from firnline_benchmark_runs import benchmark_run

from bench.rewrite import report
from bench.rewrite.figures import Bar, Figure
from bench.rewrite.pairs import summary
from bench.rewrite.parts.peers import KINDS
from bench.rewrite.plot import svg
from bench.rewrite.report import PAGE, PLOT, RESULTS, TITLES, figures, load, table

BEGIN, END = "<!-- rewrite: begin -->", "<!-- rewrite: end -->"

TABLE = {
    "shape": "main", "rows_in": 2_000_000, "rows_out": 1_000_000, "delete_rows": 500_000,
    "bytes": 70_000_000, "data_files": 12, "delete_files": 10, "partitions": 6,
}  # fmt: skip
HEAD = {
    "taken_at": "2026-01-01T00:00:00+00:00", "commit": "abc1234", "machine": "2 x CPU",
    "load_before": 0.1, "seconds": 5, "table": TABLE, "bars": [],
}  # fmt: skip


def peers(**more):
    """What the part leaves where Sail's rows with NULL keys are others."""
    commit = {"commit": {"wall_s": 0.5, "cpu_s": 0.25}}
    found = {
        "firnline": [benchmark_run("firnline", extra=commit)],
        "sail": [benchmark_run("sail", 3.0, 4.0)],
    }
    wrong = [benchmark_run("sail", same_rows=False, rows_out=1_234)]
    kinds = {kind: summary(found) for kind in KINDS}
    kinds["nulls"] = summary({**found, "sail": wrong})
    body = {"nulls_table": {**TABLE, "rows_out": 1_200}, "summary": kinds}
    return {**HEAD, **body, "absent": {}, "failed": {}, **more}


def row(text, who):
    [line] = [line for line in text.splitlines() if line.startswith(f"| {who} |")]
    return [cell.strip() for cell in line.strip("|").split("|")]


def test_a_table_has_as_many_columns_everywhere():
    text = table(("a", "b"), [("1", "2"), ("3", "4")])
    assert text == "| a | b |\n| --- | --- |\n| 1 | 2 |\n| 3 | 4 |"


def test_what_was_not_measured_is_said_to_be_so():
    assert figures({}).count("Not measured yet.") == len(TITLES)


def test_every_part_has_a_title_and_a_renderer():
    assert set(report.RENDERERS) == set(TITLES) == set(report.PARTS)


def test_a_commit_into_a_large_table_is_told_in_time_and_memory():
    one = {
        "files": 100_000,
        "manifests": 200,
        "seconds": [5.3, 5.1],
        "committer_mb": 53,
        "java_mb": 264,
    }
    text = figures({"head": {**HEAD, "head": one}})
    assert "100,000 live files in 200 manifests: 5.3 s for the first commit, 5.1 s" in text
    assert "53 MB of the committer's memory, 264 MB of its JVM's" in text


def test_a_stream_is_told_with_its_load_and_what_the_quiet_table_waited():
    writer = {
        "a_second": 4.8, "landed": 864, "failed": 1, "unknown": 0, "failed_share": 0.001,
        "append_s": {"median": 0.08, "p99": 0.4}, "failures": [],
    }  # fmt: skip
    one = {
        "rate": 5.0, "writer_processes": 2, "minutes": 3.0, "busy": True,
        "properties": {"firnline.x": "8"}, "commits": 40,
        "committed_bytes": 9_000_000, "rewritten_bytes": 10_000_000, "small": [0, 12, 44],
        "writers": {"hot": writer, "quiet": {**writer, "a_second": 0.5}}, "cpu_s": 200.0,
        "waits_s": {"hot": [0.5, 0.7, 2.0], "quiet": [0.1, 0.2, 0.9]}, "pss_peak": 2_000_000_000,
    }  # fmt: skip
    text = figures({"streams": {**HEAD, "stream": one}})
    assert "5 appends a second asked for, 4.8 made by 2 writers, for 3 minutes" in text
    assert (
        "40, with 9.00 MB of the 10.00 that were rewritten. Small files: 12 in the median, 44"
        in text
    )
    assert "1 of 865 failed" in text
    assert row(text, "quiet") == ["quiet", "3", "0.20", "0.90"]


@pytest.mark.parametrize(("limit", "words"), [(3.0, "met"), (1.0, "**not met**"), (None, "shown")])
def test_a_bar_that_is_not_met_stands_out(limit, words):
    bar = Bar("CPU", limit, Figure(2.0, 1.0, 3.0)).as_json()
    text = figures({"peers": peers(bars=[bar])})
    assert row(text, "peers")[-1] == words


def test_engines_with_their_commit():
    found = {
        "firnline": [benchmark_run("firnline", extra={"commit": {"wall_s": 0.5, "cpu_s": 0.25}})]
    }
    found |= {"stock": [benchmark_run("stock", 20.0)], "floor": [benchmark_run("floor")]}
    text = figures({"main": {**HEAD, "summary": summary(found)}})
    assert "2,000,000 rows in 12 data files and 500,000 delete rows" in text
    assert [row(text.split("| of it")[0], who)[7] for who in found] == ["0.50 / 0.25", "in it", "-"]


def test_a_peer_s_start_first_and_warm_runs_stand_apart():
    cells = row(figures({"peers": peers()}), "sail")
    assert cells[1:6] == ["3.0 / 4.0", "3.00 / 4.00", "3 (3-3)", "4 (4-4)", "100 (100-100)"]
    assert cells[10] == "in it"


def test_a_peer_s_wrong_rows_are_shouted():
    text = figures({"peers": peers()})
    assert row(text, "sail")[8:10] == ["yes", "**no**"]
    assert "**sail (nulls) has other rows**: 1,234, not 1,200." in text
    assert "firnline (nulls)" not in text


def test_a_peer_that_was_not_run_says_why():
    text = figures({"peers": peers(absent={"trino": "needs Java 24 or newer"})})
    assert "- trino was not run: needs Java 24 or newer." in text


def test_a_peer_that_failed_has_no_row():
    text = figures({"peers": peers(failed={"sail": "sail: ended\nwith 1"})})
    assert "- **sail failed**: `sail: ended with 1`" in text
    assert "| sail |" not in text


def test_only_what_lies_between_the_markers_is_written(monkeypatch, tmp_path):
    page = tmp_path / "page.md"
    page.write_text(f"before\n{BEGIN}\nold\n{END}\nafter\n")
    monkeypatch.setattr(report, "PAGE", page)
    monkeypatch.setattr(report, "RESULTS", tmp_path)
    monkeypatch.setattr(report, "PLOT", tmp_path / "plot.svg")
    report.main()
    text = page.read_text()
    assert text.startswith(f"before\n{BEGIN}\n\n### The bars")
    assert text.endswith(f"{END}\nafter\n")
    assert "old" not in text


def test_the_page_shows_the_results_that_lie_beside_it():
    results = load(RESULTS)
    assert figures(results) in PAGE.read_text(), "make bench-rewrite-report"
    assert PLOT.read_text() == svg(results), "make bench-rewrite-report"


def test_a_plot_is_xml_with_a_bar_for_each_contestant():
    found = {"firnline": [benchmark_run("firnline")], "stock": [benchmark_run("stock", 9.0)]}
    drawn = ElementTree.fromstring(svg({"main": {"summary": summary(found)}}))
    bars = [one for one in drawn.iter() if one.tag.endswith("rect") and one.get("fill") != "white"]
    assert len(bars) == 3 * len(found)  # CPU, wall, memory
