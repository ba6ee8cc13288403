"""Which peers are run, and which of their figures count."""

from __future__ import annotations

import pytest
from firnline_bouts import bout

from bench.rewrite import javas, trino
from bench.rewrite.parts import peers
from bench.rewrite.parts.peers import KINDS, Tally, bars
from bench.rewrite.run import PARTS, chosen

OURS = [bout("firnline", 1.0, 2.0, extra={"commit": {"wall_s": 1.0, "cpu_s": 2.0}})]


def tally(**found):
    return Tally({kind: {"firnline": OURS, **found} for kind in KINDS})


def test_a_peer_is_compared_with_our_commit_in_our_figures():
    medians = {bar.what: bar.found.median for bar in bars(tally(sail=[bout("sail", 4.0, 8.0)]))}
    assert medians["wall with the commit against Sail, warm"] == pytest.approx(0.5)
    assert medians["CPU with the commit against Sail, warm"] == pytest.approx(0.5)
    assert medians["CPU without the commit against Sail, warm"] == pytest.approx(0.25)


def test_trino_is_compared_cold_and_warm():
    found = [bar.what for bar in bars(tally(trino=[bout("trino")])) if "wall" in bar.what]
    assert found == [
        "wall with the commit against Trino, warm",
        "wall with the commit against Trino, first",
    ]


@pytest.mark.parametrize(
    "theirs",
    [[bout("sail", same_rows=False)], [], [bout("sail"), bout("sail")]],
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
    assert chosen("all", with_peers=True) == list(PARTS)
    assert chosen("main", with_peers=True) == ["main", "peers"]
    assert chosen("peers", with_peers=True) == ["peers"]


def test_an_unknown_part_is_refused():
    with pytest.raises(SystemExit, match="no part mian"):
        chosen("main,mian", with_peers=False)
