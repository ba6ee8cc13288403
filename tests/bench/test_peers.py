"""Which peers are run, and which of their figures count."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from firnline_benchmark_runs import benchmark_run

from bench.rewrite import javas, trino
from bench.rewrite.benchmark_runs import Visitor
from bench.rewrite.engines import FIRNLINE, SAIL, Failed
from bench.rewrite.parts import peers
from bench.rewrite.parts.peers import KINDS, Tally, bars
from bench.rewrite.run import CLUSTERS, PARTS, chosen
from bench.rewrite.survivors import Sum
from bench.rewrite.trees import Usage

EXPECTED = {"p0": Sum(1_200, 77)}
OURS = [benchmark_run("firnline", 1.0, 2.0, extra={"commit": {"wall_s": 1.0, "cpu_s": 2.0}})]


def tally(**found):
    return Tally({kind: {"firnline": OURS, **found} for kind in KINDS})


@pytest.fixture
def judge():
    """Of what an engine left of a table whose right rows are EXPECTED."""
    running = SimpleNamespace(name="sail", start_s=1.0, start_cpu_s=2.0)
    source = SimpleNamespace(expected=EXPECTED, rows_in=2_000)
    usage = Usage(1.0, 2.0, 0, 0, {}, {})

    def judged(sums, strict):
        return Visitor(None, running, None, strict)._run(source, usage, {}, sums, [10])

    return judged


@pytest.mark.parametrize(
    "sums", [{"p0": Sum(1_200, 78)}, {"p0": Sum(1_201, 77)}, {}], ids=["other", "more", "none"]
)
def test_wrong_rows_end_ours_and_are_told_of_a_peer(judge, sums):
    with pytest.raises(Failed, match="wrong rows"):
        judge(sums, strict=True)
    assert judge(sums, strict=False).same_rows is False
    assert judge(EXPECTED, strict=True).same_rows is True


def test_a_peer_that_fails_leaves_the_others_their_figures(monkeypatch):
    def failing(*_, **__):
        raise Failed("sail: ended with 1")

    monkeypatch.setattr(peers, "arriving", failing)
    found = tally(sail=[])
    peers._visit(None, SAIL, (), found)
    assert found.failed == {"sail": "sail: ended with 1"}
    with pytest.raises(Failed):
        peers._visit(None, FIRNLINE, (), found)


def test_a_peer_is_compared_with_our_commit_in_our_figures():
    medians = {
        bar.what: bar.found.median for bar in bars(tally(sail=[benchmark_run("sail", 4.0, 8.0)]))
    }
    assert medians["wall with the commit against Sail, warm"] == pytest.approx(0.5)
    assert medians["CPU with the commit against Sail, warm"] == pytest.approx(0.5)
    assert medians["CPU without the commit against Sail, warm"] == pytest.approx(0.25)


def test_trino_is_compared_cold_and_warm():
    found = [bar.what for bar in bars(tally(trino=[benchmark_run("trino")])) if "wall" in bar.what]
    assert found == [
        "wall with the commit against Trino, warm",
        "wall with the commit against Trino, first",
    ]


@pytest.mark.parametrize(
    "theirs",
    [[benchmark_run("sail", same_rows=False)], [], [benchmark_run("sail"), benchmark_run("sail")]],
    ids=["wrong rows", "never ran", "another number of rounds"],
)
def test_some_figures_are_not_compared(theirs):
    assert bars(tally(sail=theirs)) == []


def test_a_machine_without_peers_says_what_is_missing(monkeypatch, tmp_path):
    monkeypatch.setattr(peers, "PACKAGES", tmp_path)
    monkeypatch.setattr(javas, "homes", lambda: iter([]))
    who, absent = peers.present()
    assert [one.name for one in who] == ["firnline"]
    assert "PEERS=1" in absent["sail"]
    assert "Java 24" in absent["trino"]


def test_a_machine_with_both(monkeypatch, tmp_path):
    (tmp_path / "pysail").mkdir()
    java = tmp_path / "bin" / "java"
    monkeypatch.setattr(peers, "PACKAGES", tmp_path)
    monkeypatch.setattr(javas, "oldest_from", lambda *_: java)
    monkeypatch.setattr(trino, "installed", lambda: tmp_path / "home")
    who, absent = peers.present()
    assert [one.name for one in who] == ["firnline", "sail", "trino"]
    assert who[2].settings["java"] == str(java)
    assert absent == {}


def test_peers_are_measured_only_when_asked_for():
    assert "peers" not in chosen("all", with_peers=False)
    assert chosen("all", with_peers=True) == [name for name in PARTS if name not in CLUSTERS]
    assert chosen("main", with_peers=True) == ["main", "peers"]
    assert chosen("peers", with_peers=True) == ["peers"]


def test_an_unknown_part_is_refused():
    with pytest.raises(SystemExit, match="no part mian"):
        chosen("main,mian", with_peers=False)
