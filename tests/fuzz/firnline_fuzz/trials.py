"""One trial: a table lives, is rewritten by the product, and is read before and after."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from random import Random
from typing import Any

from firnline_domain.errors import TaskRefused
from firnline_domain.identity import Scope
from firnline_domain.records.events import RewriteCommitted, RewriteConflicted
from firnline_domain.records.orders import RewriteFiles
from firnline_domain.records.parts.slices import Slice
from firnline_domain.records.results import Mode, RewriteFinished
from firnline_iceberg.scan.planning import live_files
from hypothesis import reject
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException

from firnline_fuzz import readers
from firnline_fuzz.histories import FULL, History, Life, Selection, created
from firnline_fuzz.tables import Table
from tests.kit.lake.table import rewrite_order

MOST_SCOPES = 2
SPARK_LACKS_TYPE = "Cannot convert unsupported type to Spark"
_numbers = itertools.count(1)


class Unreadable(Exception):
    """Iceberg's own reader fails on a table that nobody has rewritten: no oracle, no trial."""


@dataclass
class Bench:
    """Everything that a trial runs on."""

    jvm: Any
    catalog: Any
    spark: Any
    tables: Any
    rewriter: Any
    handlers: Any
    namespace: str
    scratch: Path
    worker: Callable[[Any], Any] = lambda rewriter: rewriter  # what the rewriter is part of
    modes: Counter[str] = field(default_factory=Counter)
    told: Counter[str] = field(default_factory=Counter)

    def run(self, history: History) -> None:
        """Raises AssertionError where a row or its lineage differs after a rewrite, and
        hypothesis.errors.UnsatisfiedAssumption where Iceberg could not read it before."""
        table = created(self.jvm, self.catalog, self.namespace, f"t{next(_numbers)}", history)
        rewriter = replace(self.rewriter, set_budget_bytes=history.budget)
        bench, actions = replace(self, rewriter=rewriter), itertools.cycle(history.actions)
        trial = Trial(bench, table, history.exotic, actions, history.slice_bytes)
        life = Life(history, table, trial.ordered, trial.stock)
        try:
            life.live()
            for ref in life.refs:
                for scope in trial.scopes(ref)[:MOST_SCOPES]:
                    trial.whole(ref, scope)
                    while (ref, scope) in trial.passes:
                        trial.whole(ref, scope)
        except Unreadable as error:
            life.told.append(f"unreadable: {error}")
            reject()
        except TaskRefused as refused:
            no_such_type = history.exotic and SPARK_LACKS_TYPE in str(refused)
            if refused.reason != "metadata_unreadable" and not no_such_type:
                raise
            self.modes[f"refused {refused.reason}"] += 1
        finally:
            self.told.update(life.told)


@dataclass
class Trial:
    """One table on the bench."""

    bench: Bench
    table: Table
    exotic: bool
    actions: Iterator[Selection] = field(default_factory=lambda: itertools.repeat(FULL))
    slice_bytes: int = 0
    passes: dict[tuple[str, Scope], Slice] = field(default_factory=dict)  # that are to go on
    lineage: bool = False
    known: tuple[str, str, bool, readers.Seen] | None = None

    def before(self, ref: str) -> readers.Seen:
        """With the rows' lineage if they have one; so are they compared. Raises Unreadable."""
        lineage, known = readers.has_lineage(self.table, ref), self.known
        if known is not None and known[:3] == (ref, self._location(), lineage):
            return known[3]  # what was seen after the rewrite before
        self.lineage = lineage
        try:
            return self.seen(ref)
        except (Py4JJavaError, PySparkException) as error:
            raise Unreadable(str(error)[:300]) from error

    def seen(self, ref: str) -> readers.Seen:
        if self.exotic:
            return readers.by_generics(self.table, ref, self.bench.scratch, self.lineage)
        return readers.by_spark(self.bench.spark, self.table, ref, self.lineage)

    def scopes(self, ref: str) -> list[Scope]:
        """All of a ref; those with deletes first."""
        loaded = self.bench.tables.load(self.table.name)
        if ref not in loaded.metadata.refs:
            return []
        live = live_files(loaded, loaded.head_id(ref))
        pressed = {f.data.scope for s in live.scopes for f in live.files_of_scope(s) if f.deletes}
        return sorted(live.scopes, key=lambda scope: scope not in pressed)

    def ordered(self, ref: str, rng: Random) -> Callable[[], None] | None:
        """Run the product on one scope; what comes back commits it."""
        scopes = self.scopes(ref)
        if not scopes:
            return None
        scope = rng.choice(scopes)
        before = self.before(ref)
        result = self.run(ref, scope)
        if result.mode is Mode.HANDED_OVER:  # it has committed itself
            self.compare(ref, before, "handed over")
        return lambda: self._land(ref, result)

    def whole(self, ref: str, scope: Scope) -> None:
        """Rewrite, commit, compare."""
        before = self.before(ref)
        result = self.run(ref, scope)
        for event in self.handle(ref, result):
            assert not isinstance(event, RewriteConflicted), event
        self.compare(ref, before, f"{result.mode} {result.handover_reason}")

    def stock(self) -> str:
        """Another maintainer's compaction; what it does to the rows is not our affair."""
        name = f"{self.table.name.namespace[0]}.{self.table.name.name}"
        options = "map('rewrite-all', 'true', 'remove-dangling-deletes', 'true')"
        call = f"CALL lake.system.rewrite_data_files(table => '{name}', options => {options})"
        try:
            self.bench.spark.sql(call).collect()
        except (Py4JJavaError, PySparkException) as error:
            return f"stock failed: {str(error)[:100]}"
        return "stock done"

    def _land(self, ref: str, result: RewriteFinished) -> None:
        """Commit late: it may conflict with what came between, rows must stay either way."""
        before = self.before(ref)
        self.handle(ref, result)
        self.compare(ref, before, f"landed {result.mode}")

    def handle(self, ref: str, result: RewriteFinished) -> list[Any]:
        """Commit, and remember like a planner what the next order has to go on with."""
        events = self.bench.handlers.handle([result])
        for event in events:
            if isinstance(event, RewriteConflicted):
                continue
            done = event.slice if isinstance(event, RewriteCommitted) else None
            self.passes.pop((ref, result.scope), None)
            if done is not None and not done.is_last:
                self.passes[ref, result.scope] = done
            self.bench.modes["slices"] += done is not None
        return list(events)

    def run(self, ref: str, scope: Scope) -> RewriteFinished:
        """The worker's result, with its proof looked at; nothing is committed."""
        worker = self.bench.worker(self.bench.rewriter)
        result = worker.rewrite(self._order(ref, scope), lambda _: None)
        mode = "nothing" if not result.groups and result.mode is Mode.NATIVE else str(result.mode)
        self.bench.modes[f"{mode} {result.handover_reason or ''}".strip()] += 1
        for group in result.groups:
            self.bench.modes["conversions"] += group.converts
            assert group.rows_in == sum(file.records for file in group.inputs)
            if not group.converts:
                assert group.rows_out == sum(file.records for file in group.outputs)
            assert group.rows_in - group.rows_masked == group.rows_out
        return result

    def compare(self, ref: str, before: readers.Seen, what: str) -> None:
        """Raises AssertionError where a reader sees something else now."""
        after = self.seen(ref)
        self.known = (ref, self._location(), self.lineage, after)
        if before != after:
            gone = Counter(before) - Counter(after)
            new = Counter(after) - Counter(before)
            raise AssertionError(
                f"{what}: {self._location()}\n"
                f"gone: {list(gone.elements())[:5]}\nnew: {list(new.elements())[:5]}"
            )

    def _location(self) -> str:
        return str(self.table.java.operations().current().metadataFileLocation())

    def _order(self, ref: str, scope: Scope) -> RewriteFiles:
        after, selection = self.passes.get((ref, scope)), next(self.actions)
        action, ratio = (after.action, after.min_dead_ratio) if after else selection
        head = self.bench.tables.load(self.table.name).head(ref).snapshot_id
        return rewrite_order(
            self.table.name, head, scope, ref, action, "fuzz",
            min_dead_ratio=ratio, max_bytes=self.slice_bytes, after=after,
        )  # fmt: skip
