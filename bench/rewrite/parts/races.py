"""What of a rewrite's work reaches a commit while writers commit every second, and what that costs
the writers: Firnline, and Iceberg's own action with partial progress, ordered at the same times.
All of them, the writers and nobody's table too, go through the gateway."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

from firnline_iceberg.scan.planning import live_files

from bench.rewrite.benchmark_runs import LIMIT_S, Visitor, question, visiting
from bench.rewrite.engines import FIRNLINE, STOCK, Engine, Failed
from bench.rewrite.figures import Bar, figure
from bench.rewrite.shapes import Shape
from bench.rewrite.sources import Arena, Source, guarded
from bench.rewrite.writers import Book, found, writing

SHAPE = Shape(
    "streams",
    partitions=4,
    base_rows=1_200_000,
    base_files=3,
    upserts=120_000,
    commits=4,
    growing=False,
)
HEAD_START_S = 5.0  # writers are at work before the first order, as wherever there are writers
SECONDS = 90.0  # under the writers, from then on
EVERY_S = 15.0  # from one order to the next, or as soon as the last one has ended
NOBODY = Engine("nobody", "", {})
PARTIAL = STOCK.having(
    options={
        "partial-progress.enabled": "true",
        "partial-progress.max-commits": "10",
        "remove-dangling-deletes": "true",
    }
)


def run(place: Arena, _count: int, scale: float) -> dict[str, Any]:
    """Each engine in turn, on a copy of the same table, beside writers of its own."""
    origin = place.source(SHAPE.scaled(scale))
    print(origin.described(), flush=True)
    with guarded(place) as behind:
        sides = {who.name: _side(behind, origin, who) for who in (FIRNLINE, PARTIAL)}
        sides[NOBODY.name] = _alone(behind, origin)
    for name, side in sides.items():
        print(f"{name:>10}: {side}", flush=True)
    bars = _bars(sides)
    for bar in bars:
        print(bar, flush=True)
    return {"table": origin.described(), "sides": sides, "bars": [bar.as_json() for bar in bars]}


def _bars(sides: dict[str, dict[str, Any]]) -> list[Bar]:
    """The share is a bar from below, so its complement is held against 5 %."""
    lost = {name: 1 - side["share"] for name, side in sides.items() if side["share"] is not None}
    failed = {name: side["failed"] / max(1, side["commits"]) for name, side in sides.items()}
    return [
        Bar("share of rewritten bytes that no commit took", 0.05, figure([lost["firnline"]])),
        Bar("the same, Iceberg's action", None, figure([lost["stock"]])),
        Bar(
            "share of the writers' commits that failed",
            failed["stock"],
            figure([failed["firnline"]]),
        ),
        Bar("the same with nobody at work", None, figure([failed["nobody"]])),
    ]


def _side(place: Arena, origin: Source, who: Engine) -> dict[str, Any]:
    with visiting(place, who) as visitor:
        name = place.copied(origin)
        turns: list[dict[str, Any]] = []
        with writing(place, origin.shape, name) as book:
            turns += [turn(visitor, origin, name) for _ in orders()]
        turn(visitor, origin, name)  # alone: after it no delete is left to apply
        with suppress(Failed):
            turn(visitor, origin, name)
        return {**_told(turns, book), "rows_right": _right(place, name, book)}


def orders(seconds: float = SECONDS) -> Iterator[None]:
    """Now is the time for an order."""
    time.sleep(HEAD_START_S)
    due = time.monotonic()
    end = due + seconds
    while due < end:
        time.sleep(max(0.0, due - time.monotonic()))
        yield
        due = max(due + EVERY_S, time.monotonic())


def _alone(place: Arena, origin: Source) -> dict[str, Any]:
    name = place.copied(origin)
    with writing(place, origin.shape, name) as book:
        time.sleep(HEAD_START_S + SECONDS)
    return _told([], book)


def _right(place: Arena, name: str, book: Book) -> bool:
    return found(place, name, set(book.newest)) == book.expected()


def turn(visitor: Visitor, origin: Source, name: str) -> dict[str, Any]:
    """One rewrite of everything; bytes that a commit took, and that none took."""
    asked = question(origin, name)
    if visitor.committer is not None:
        results = visitor.running.ask(LIMIT_S, where=None, **asked)["results"]
        return visitor.committer.ask(LIMIT_S, results=results)
    return _stock_turn(visitor, name, asked)


def _stock_turn(visitor: Visitor, name: str, asked: dict[str, Any]) -> dict[str, Any]:
    """With rewrite-all the action rewrites every live file. It says how many bytes of them were
    committed; of commits that failed on the way it says nothing, so what is left was in vain."""
    loaded = visitor.place.loaded(name)
    live = live_files(loaded, loaded.head("main").snapshot_id).data
    every = sum(file.bytes for file in live)
    try:
        row = visitor.running.ask(LIMIT_S, where=None, **asked)["answered"]
    except Failed as failed:
        return {"bytes_committed": 0, "bytes_lost": every, "reasons": {str(failed)[:150]: 1}}
    committed = row["rewritten_bytes_count"]
    lost = max(0, every - committed)
    reasons = {"commits_failed": 1} if lost else {}
    return {"bytes_committed": committed, "bytes_lost": lost, "reasons": reasons}


def rank(times: list[float], share: float) -> float:
    return round(sorted(times)[int(share * (len(times) - 1))], 3)


def _told(turns: list[dict[str, Any]], book: Book) -> dict[str, Any]:
    committed = sum(turn["bytes_committed"] for turn in turns)
    lost = sum(turn["bytes_lost"] for turn in turns)
    reasons: Counter[str] = Counter()
    for turn in turns:
        reasons.update(turn["reasons"])
    return {
        "turns": len(turns),
        "bytes_committed": committed,
        "bytes_lost": lost,
        "share": committed / (committed + lost) if committed + lost else None,
        "rows_repaired": sum(turn.get("rows_repaired", 0) for turn in turns),
        "reasons": dict(reasons),
        "commits": book.commits,
        "failed": len(book.failures),
        "statement_s": {"median": rank(book.took_s, 0.5), "p99": rank(book.took_s, 0.99)},
        "failures": sorted({one[:120] for one in book.failures})[:5],
    }
