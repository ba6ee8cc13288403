"""A round: a storm of writes and faults, then calm, then everything is looked at."""

from __future__ import annotations

import itertools
import random
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from firnline_adapters.records.signing import signer_at
from firnline_committer.background.sweeps import AGAIN_MS
from firnline_domain.records.events import RewriteCommitted
from firnline_iceberg.metadata.manifest_reader import Detail
from firnline_iceberg.removal.sweep import OutputSweeper
from firnline_iceberg.scan.planning import live_entries
from firnline_iceberg.table.catalog_client import Tables
from firnline_iceberg.table.loaded_table import LoadedTable
from pyiceberg.catalog.rest import RestCatalog

from firnline_chaos import clocks, invariants
from firnline_chaos.catalog_proxy import Journal
from firnline_chaos.ground import SWEEP_AGE_S, Ground, ground
from firnline_chaos.hostile import tenant
from firnline_chaos.hostile.tenant import Hostile
from firnline_chaos.lakes import LAKES
from firnline_chaos.plan import WRITERS, Plan, Write, draw
from firnline_chaos.reader import Promise, Reader, reader, recount, shown
from firnline_chaos.storm import Storm
from firnline_chaos.tables import BUSY, KINDS, NAMESPACE, Kind, create, drop_old
from firnline_chaos.topics import Topics
from firnline_chaos.writers import Book, Writer
from tests.kit.lake.rows import Lineage, Unseen
from tests.kit.lake.statistics import find_wrong

READY_S = 300.0  # until all parts serve again after a storm
REST_S = 300.0  # until nothing moves any more: longer than an order's deadline
SAID_S = 20.0
QUIET_S = 3.0  # nothing has moved for so long
PROMISED = Promise(SWEEP_AGE_S + AGAIN_MS / 1000)
LOOKS = 3  # at a rest that does not last
HOSTILE_PER_S = 1.0  # inputs of the hostile tenant during a storm
MAX_VICTIMS = 20


@dataclass
class Run:
    """All rounds of one seed."""

    ground: Ground
    reader: Reader
    topics: Topics
    writers: list[Writer]
    book: Book
    storm: Storm
    hostile: Hostile
    say: Callable[[str], None]
    findings: list[str] = field(default_factory=list)
    checks: int = 0
    in_storm: set[tuple[str, int]] = field(default_factory=set)  # attempts ordered until calm
    said: float = 0.0  # when it was said why there is no rest
    swept: Counter[str] = field(default_factory=Counter)
    guests: list[Callable[[random.Random, threading.Event], None]] = field(default_factory=list)
    hostile_uuids: set[str] = field(default_factory=set)  # tables that may have dead letters

    def plan(self, seed: int, number: int) -> Plan:
        """Of a round, by what this catalog and its store can do and suffer."""
        return draw(seed, number, self.ground.sorts, self.ground.kinds)

    def round(self, plan: Plan) -> list[str]:
        """Findings of one round; none: all invariants hold."""
        self._storm(plan)
        found = self._calm(plan)
        self.in_storm = self.topics.read().attempts
        found += self._look() if found else self._look_at_rest()
        self.findings += found
        return found

    def finale(self) -> list[str]:
        """What killed processes have left is swept, as an operator does it, and everything is
        looked at once more: nothing of age is left, and nothing is gone that anybody needs."""
        tables = Tables(self.ground.catalog)
        sweeper = OutputSweeper(tables, now_ms, int(SWEEP_AGE_S * 1000))
        began_ms = now_ms()  # what comes of age after that is not promised
        for kind in KINDS:
            swept = sweeper.sweep(self.reader.load(kind.name).identity)
            self.swept += Counter(
                lists=len(swept.lists), files=len(swept.removed), **swept.skipped_by_reason
            )
        found = self._look_at_rest(Promise(SWEEP_AGE_S, began_ms))
        self.findings += found
        return found

    # ---- storm

    def _storm(self, plan: Plan) -> None:
        stop, started = threading.Event(), time.monotonic()
        jobs = [
            (self.writers[number].work, [one for one in plan.writes if one.writer == number])
            for number in range(WRITERS)
        ]
        threads = [
            threading.Thread(target=work, args=(writes, started, stop), daemon=True)
            for work, writes in jobs
        ]
        rage = threading.Thread(target=self.storm.rage, args=(plan.blows, started, stop))
        enough, dice = threading.Event(), random.Random(f"hostile/{plan.number}")
        endless = [
            threading.Thread(target=self.hostile.work, args=(dice, enough), daemon=True),
            threading.Thread(
                target=self.writers[WRITERS].work, args=(plan.stream, started, enough), daemon=True
            ),
            *(threading.Thread(target=work, args=(dice, enough)) for work in self.guests),
        ]
        for thread in (*threads, rage, *endless):
            thread.start()
        for thread in (rage, *threads):
            thread.join()
        enough.set()
        for thread in endless:
            thread.join()

    # ---- calm

    def _calm(self, plan: Plan) -> list[str]:
        """No fault goes on, every part serves, and each table gets one more commit: a lost event
        is noticed at the next one."""
        self.ground.calm()
        deadline = time.monotonic() + READY_S
        while waiting := [one for one in self.ground.parts if not self.ground.is_ready(one)]:
            if time.monotonic() > deadline:
                return [f"not ready after {READY_S:g} s of calm: {', '.join(waiting)}"]
            time.sleep(0.2)
        return list(itertools.chain.from_iterable(self._last(plan, kind.name) for kind in KINDS))

    def _last(self, plan: Plan, table: str) -> Iterator[str]:
        write = Write(f"{plan.number}-last-{table}", 0.0, 0, table, "append", 0.0, plan.number)
        done = self.writers[0].do(write, threading.Event(), tries=20)
        self.book.done.append(done)
        if done.outcome != "landed":
            yield f"{table}: no append lands in calm: {done.outcome} {done.detail}"

    # ---- rest

    def _rest(self) -> list[str]:
        """Wait until no task is open and no table moves; what moves at the end is a finding."""
        deadline, since = time.monotonic() + REST_S, time.monotonic()
        before: dict[str, int | None] | None = None
        restless: list[str] = []
        while time.monotonic() < deadline:
            now, restless = self._position()
            if now != before or restless:
                before, since = now, time.monotonic()
                self._say_why(restless)
            elif time.monotonic() - since > QUIET_S:
                return []
            time.sleep(0.5)
        return [f"no rest after {REST_S:g} s: {one}" for one in restless or ["heads move"]]

    def _say_why(self, restless: list[str]) -> None:
        if time.monotonic() - self.said > SAID_S:
            self.said = time.monotonic()
            self.say(f"not at rest: {'; '.join(restless[:4]) or 'heads move'}")

    def _position(self) -> tuple[dict[str, int | None], list[str]]:
        ledger, restless = self.topics.read(), []
        heads = {kind.name: self.reader.load(kind.name) for kind in KINDS}
        for name, table in heads.items():
            state = ledger.states.get(table.identity.uuid)
            restless += invariants.unsettled(name, table.head_id("main"), state)
        ledger.timed = not self.ground.clocks_jumped
        restless += [f"task {one} is open" for one in ledger.open]
        return {name: table.head_id("main") for name, table in heads.items()}, restless

    # ---- look

    def _look_at_rest(self, promise: Promise = PROMISED) -> list[str]:
        """What is found while nothing moves: a partition that has backed off is ordered again when
        its time has come, and a commit in the middle of a look would be a finding."""
        found: list[str] = []
        for _ in range(LOOKS):
            if restless := self._rest():
                return restless + self._look(promise)
            before = self._position()
            found = self._look(promise)
            if not found or self._position() == before:
                break
        return found

    def _look(self, promise: Promise = PROMISED) -> list[str]:
        """`promise`: of write-ahead lists."""
        ledger = self.topics.read()
        book = self.hostile.book
        found = [
            *invariants.ends(ledger),
            *invariants.letters(ledger, book.places, self.hostile_uuids, self.ground.clocks_far),
        ]
        answered = {(one.topic, one.partition, one.offset) for one in ledger.letters}
        found += tenant.findings(book, answered, self.hostile.outside)
        found += invariants.able(ledger, self.in_storm)
        if not self.ground.clocks_jumped:
            found += invariants.pace(ledger, BUSY.name)
        found += [f"a writer failed: {one}" for one in self.book.errors]
        for kind in KINDS:
            found += self._table(kind, promise)
        return found

    def _table(self, kind: Kind, promise: Promise) -> list[str]:
        name = kind.name
        table, lineage = self.reader.load(name), self.book.lineages[name]
        markers = [marker for where, marker in self.book.acknowledged if where == name]
        ledger, head = self.topics.ledger, table.head_id("main")
        committed = [task for task, ends in ledger.ends.items() if _committed(ends)]
        state = ledger.states.get(table.identity.uuid)
        hides = self.ground.hides_history
        ever = list(lineage.nodes.values()) if hides else []
        found = [
            *invariants.whole_history(name, lineage),
            *invariants.acknowledged(name, lineage, markers, head if hides else None),
            *invariants.one_commit(
                name, lineage, list(self.ground.journal.sent), len(table.metadata.partition_specs)
            ),
            *invariants.files(name, self.reader.facts(name, committed, promise, ever)),
            *invariants.counters(name, head, state, recount(table, kind.target_bytes)),
            *(f"{name}: {one}" for one in find_wrong(table, lineage.distinct_ids)),
        ]
        for ref in table.metadata.refs:
            found += self._rows(name, table, ref)
        self.checks += 6 + len(table.metadata.refs)
        return found

    def _rows(self, name: str, table: LoadedTable, ref: str) -> list[str]:
        try:
            meant = shown(table, self.book.lineages[name].rows(table.head_id(ref)))
        except Unseen as unseen:
            return [f"{name}@{ref}: {unseen}"]
        return invariants.rows(name, ref, meant, self.reader.rows(name, ref))

    @property
    def hostile_sent(self) -> int:
        """Inputs of the tenant so far."""
        return self.hostile.book.sent.total()


def now_ms() -> int:
    return int(time.time() * 1000)


def _committed(ends: Iterable[Any]) -> bool:
    return any(isinstance(end, RewriteCommitted) for end in ends)


def live_paths(eyes: Reader) -> list[str]:
    """Some live files of the ordinary tables."""
    found = itertools.chain.from_iterable(
        (entry.path for entry in live_entries(table, head, Detail.REFERENCES))
        for kind in KINDS
        if (head := (table := eyes.load(kind.name)).head_id("main")) is not None
    )
    return list(itertools.islice(found, MAX_VICTIMS))


@contextmanager
def prepared(
    state_dir: Path,
    iceberg_jar: Path,
    say: Callable[[str], None],
    hostile_per_s: float = HOSTILE_PER_S,
    config: str | None = None,
) -> Iterator[Run]:
    """Everything up, and empty tables. `config`: on that lake, which the hostile tenant has no
    credentials of."""
    lineages = {kind.name: Lineage(drop_old if kind.ages else None) for kind in KINDS}

    def see(name: str, snapshots: Iterable[Any]) -> None:
        if name in lineages:
            lineages[name].observe(snapshots)

    def propose(name: str, snapshots: Iterable[Any]) -> None:
        if name in lineages:
            lineages[name].propose(snapshots)

    journal = Journal(see=see, propose=propose)
    with ExitStack() as stack:
        opened = LAKES[config](state_dir / "lake", journal) if config else nullcontext()
        lake = stack.enter_context(opened)
        settings = clocks.settings(state_dir)
        found = stack.enter_context(ground(state_dir, journal, settings, lake))
        by_gateway = found.by(found.stack.gateway_uri)
        RestCatalog("lake", **by_gateway.pyiceberg_properties()).create_namespace(NAMESPACE)
        book = Book(lineages, itertools.count(1))
        uris = (*found.gateways, found.stack.gateway_uri)  # the last one is the busy table's
        writers = [Writer(iceberg_jar, found.by(uri), book) for uri in uris]
        for writer in writers:
            stack.callback(writer.close)
        for kind in (*found.kinds, BUSY):
            create(writers[0].jvm, writers[0].catalog, kind)
        scratch = state_dir / "reader"
        seen = reader(found.catalog, found.class_path, found.files, scratch)
        eyes = stack.enter_context(seen)
        topics = Topics(found.stack.kafka)
        stack.callback(topics.close)
        hostile = Hostile(
            found.stack.kafka,
            found.stack.gateway_uri,
            found.catalog.uri,
            signer_at({"FIRNLINE_SIGNING_KEYS": str(found.state.signing_keys)}),
            state_dir / "outside" / "file.parquet",
            lambda: live_paths(eyes),
            0.0 if lake else hostile_per_s,
        )
        yield Run(found, eyes, topics, writers, book, Storm(found, say), hostile, say)
