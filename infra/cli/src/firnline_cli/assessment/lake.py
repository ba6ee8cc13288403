"""Reads every table of a lake over several connections. A table that cannot be read stops no
other."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from itertools import islice
from typing import TypeVar

from firnline_adapters.config.redaction import redact
from firnline_domain.errors import RetryLater, TaskRefused
from firnline_domain.identity import TableName
from firnline_domain.settings.in_force import with_namespace
from firnline_domain.settings.policies import NO_POLICIES, TablePolicies
from firnline_domain.settings.thresholds import Thresholds
from firnline_iceberg.metadata.avro_reader import MetadataFileGone
from firnline_iceberg.table.catalog_client import Tables
from firnline_iceberg.table.loaded_table import LoadedTable, TableGone

from firnline_cli.assessment.reading import read_table
from firnline_cli.assessment.verdict import TableAssessment, verdict_of
from firnline_cli.forecast.catalog import seen_of
from firnline_cli.forecast.forecast import forecast

Name = tuple[str, ...]
T = TypeVar("T")
TRIES = 3  # of one table: a catalog under load says 503 now and then
PAUSE_S = 0.5  # doubles
MAX_TEXT = 400  # of an error


@dataclass
class AssessedLake:
    """A lake that is assessed. `unlisted`: namespaces that could not be listed, and why."""

    tables: Tables
    fleet: Thresholds
    connections: int
    now_ms: int
    policies: TablePolicies = NO_POLICIES
    sleep: Callable[[float], None] = time.sleep
    unlisted: dict[str, str] = field(default_factory=dict)
    _properties: dict[Name, dict[str, str]] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def __post_init__(self) -> None:
        self._pool = ThreadPoolExecutor(self.connections, "assess")

    def close(self, wait_for: bool = True) -> None:
        """Close the connections. `wait_for` False: without waiting for what is under way."""
        self._pool.shutdown(wait=wait_for, cancel_futures=True)

    def list_tables(self, below: Iterable[Name], listed: Callable[[int], None]) -> list[Name]:
        """Return the tables of some namespaces and of those below them; all for (). `listed` is
        called with the number of tables so far."""
        found: dict[Name, None] = {}
        waiting = {self._pool.submit(self._list_namespace, one): one for one in below}
        while waiting:
            done, _ = wait(waiting, return_when=FIRST_COMPLETED)
            for future in done:
                del waiting[future]
                tables, namespaces = future.result()
                found.update(dict.fromkeys(tables))
                for one in namespaces:
                    waiting[self._pool.submit(self._list_namespace, one)] = one
            listed(len(found))
        return list(found)

    def _list_namespace(self, namespace: Name) -> tuple[list[Name], list[Name]]:
        try:
            return self._retry(lambda: self.tables.list_namespace(namespace))
        except RetryLater as error:
            self.unlisted[".".join(namespace) or "the catalog"] = error_line(error)
            return [], []

    def read_verdicts(self, names: Iterable[Name]) -> Iterator[TableAssessment]:
        """Yield the verdicts in the order in which they are done. Tables that are dropped by now
        are left out."""
        left, running = iter(names), set[Future[TableAssessment | None]]()
        while True:
            for name in islice(left, 2 * self.connections - len(running)):
                running.add(self._pool.submit(self._read_verdict, name))
            if not running:
                return
            done, running = wait(running, return_when=FIRST_COMPLETED)
            yield from (found for one in done if (found := one.result()) is not None)

    def _read_verdict(self, name: Name) -> TableAssessment | None:
        """Return the verdict about a table. Never raises: an unexpected error belongs to that table
        only."""
        try:
            return self._retry(lambda: self._assess(self.tables.load_named(name[:-1], name[-1])))
        except TableGone:
            return None
        except (RetryLater, TaskRefused, MetadataFileGone) as error:
            return TableAssessment(name, error=error_line(error))
        except Exception as error:
            return TableAssessment(name, error=f"{type(error).__name__}: {error_line(error)}")

    def _assess(self, table: LoadedTable) -> TableAssessment:
        of_namespace = self._namespace_properties(table.identity.namespace)
        own = with_namespace(table.properties, of_namespace)
        settings = self.policies.with_policies(table.identity, own)
        found = read_table(table, settings, self.now_ms)
        name = (*table.identity.namespace, table.identity.name)
        facts = found.facts
        if facts.uncounted:
            return verdict_of(name, facts, None, self.now_ms)
        counts = facts.manifests, facts.manifest_bytes
        rules = self.policies.rules_of(table.identity)
        seen = seen_of(table, settings, found.partitions, *counts, rules)
        return verdict_of(name, facts, forecast(seen, self.fleet, self.now_ms), self.now_ms)

    def _namespace_properties(self, namespace: Name) -> dict[str, str]:
        """Return all properties of a namespace; the catalog is asked once. Raises RetryLater."""
        with self._lock:
            known = self._properties.get(namespace)
        if known is None:
            known = self.tables.namespace_properties(TableName("", namespace, ""))
            with self._lock:
                self._properties[namespace] = known
        return known

    def _retry(self, call: Callable[[], T]) -> T:
        for left in reversed(range(TRIES)):
            try:
                return call()
            except RetryLater as error:
                if not left or _is_refusal(error):
                    raise
                self.sleep(PAUSE_S * 2 ** (TRIES - 1 - left))
        raise AssertionError


def _is_refusal(error: RetryLater) -> bool:
    """Return whether the error is a 401 or 403, which a retry does not change."""
    text = type(error.__cause__).__name__
    return text in ("ForbiddenError", "UnauthorizedError", "AuthorizationExpiredError")


def error_line(error: BaseException) -> str:
    """Return an error's text on one line, without secrets."""
    return redact(" ".join(str(error).split()))[:MAX_TEXT]
