"""Registers existing tables with the planner, the worst first, no faster than it can take them.
Nothing is written down: a table that the planner shows is done. A run that was killed goes on from
there when it is started again, and repeats at most the requests that were under way."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Protocol, TypeVar

from firnline_domain.errors import RetryLater, TaskRefused
from firnline_domain.identity import TableName
from firnline_iceberg.table.catalog_client import Unlisted

from firnline_cli.adoption.catalog_tables import AdoptionCatalog, Gone, Name, Outage, Unreadable
from firnline_cli.adoption.counted_tables import CountedTable, CountedTables
from firnline_cli.adoption.newcomers import FirstExpiry, Newcomer, Ranking
from firnline_cli.adoption.requests import AdoptionStopped, Requests

T = TypeVar("T")
UNREAD_IN_A_ROW = 5  # without an answer: then it is the catalog and not a table


class AdoptionReport(Protocol):
    """The receiver of an adoption's progress."""

    def report_listed(self, count: int) -> None:
        """Report the number of tables listed, and examined if they are not known."""

    def report_adoption(self, table: Newcomer, expiry: FirstExpiry) -> None:
        """Report that the table is requested, or would be."""

    def report_left_out(self, name: str, why: str) -> None:
        """Report that the table is not adopted, which is no error."""

    def report_unread(self, name: str, why: str) -> None:
        """Report that the table could not be read."""

    def report_progress(self, done: int, left: int, left_s: float) -> None:
        """Report the progress after each table. `left_s`: at the pace so far."""


@dataclass
class AdoptionTally:
    """The counts of a run."""

    listed: int = 0
    known: int = 0  # of these, to the planner, before
    asked: int = 0  # to be counted
    left_out: int = 0
    unread: int = 0


@dataclass
class Adoption:
    """One run. `requests` None: a dry run. `most`: tables to adopt; None = all. `already`: of the
    listed tables those that the planner counts."""

    lake: AdoptionCatalog
    known: CountedTables
    requests: Requests | None
    report: AdoptionReport
    now: Callable[[], float]
    most: int | None = None
    tally: AdoptionTally = field(default_factory=AdoptionTally)
    already: list[CountedTable] = field(default_factory=list)
    _asked: dict[str, TableName] = field(default_factory=dict)  # by key
    _unread_in_a_row: int = 0

    def find_newcomers(self, below: Iterable[Name], tables: Iterable[Name]) -> Iterator[Newcomer]:
        """Yield the tables that the planner does not count, of all tables below some namespaces and
        of some given by name; each by its summary. Raises Stopped.

        A listed table whose name the planner has is not loaded: a call less. One that is given by
        name is counted again if its newest snapshot is another than the planner's."""
        for name in self._list_names(below):
            self._count_listed()
            if known := self.known.find_table((self.lake.catalog_path, *name)):
                self._count_known(known)
            else:
                yield from self._find_newcomer(name)
        for name in tables:
            self._count_listed()
            yield from self._find_newcomer(name, is_named=True)

    def adopt_all(self, newcomers: Iterable[Newcomer]) -> None:
        """Request the tables, worst first, and wait until the planner shows them. Raises
        Stopped."""
        ranking = Ranking()
        for each in newcomers:
            ranking.add(each)
        began_s = self.now()
        while len(ranking) and self.tally.asked != self.most:
            newcomer = self._pop_worst(ranking)
            if newcomer is not None and self._adopt(newcomer):
                self._tell_progress(len(ranking), self.now() - began_s)
        if self.requests:
            self.requests.wait_for_all()

    @property
    def adopted_tables(self) -> list[TableName]:
        """Return the tables that were requested, and those that the planner counted before."""
        return [*(one.table for one in self.already), *self._asked.values()]

    def _count_listed(self) -> None:
        self.tally.listed += 1
        self.report.report_listed(self.tally.listed)

    def _list_names(self, below: Iterable[Name]) -> Iterator[Name]:
        unlisted: Unlisted = {}
        for namespace in below:
            try:
                yield from self.lake.table_names(namespace, unlisted)
            except (RetryLater, TaskRefused) as error:
                raise AdoptionStopped(str(error)) from None
        for name, why in unlisted.items():
            self._count_unread(f"namespace {name}", why, is_outage=False)

    def _find_newcomer(self, name: Name, is_named: bool = False) -> Iterator[Newcomer]:
        found = self._try_read(".".join(name), partial(self.lake.weigh_by_summary, name))
        if found is None:
            return
        known = self.known.find_by_key(found.table.key)
        if known is not None and is_named and known.head_snapshot_id != found.head_snapshot_id:
            self.known.forget(found.table.key)
        elif known is not None:
            self._count_known(known)
            return
        yield found

    def _count_known(self, table: CountedTable) -> None:
        """Count a table that the planner has counted already."""
        self.tally.known += 1
        self.already.append(table)

    def _pop_worst(self, ranking: Ranking) -> Newcomer | None:
        """Remove the worst table, and return it; None if its manifests had to be read first, to see
        whether it is the worst."""
        newcomer = ranking.pop_worst()
        if newcomer.exact:
            return newcomer
        closer = self._try_read(
            newcomer.table.dotted_name, partial(self.lake.weigh_by_manifests, newcomer)
        )
        if closer is not None:
            ranking.add(closer)
        return None

    def _adopt(self, newcomer: Newcomer) -> bool:
        """Request the table. Return False if it was left out."""
        table = newcomer.table
        if table.key in self._asked:
            return False  # the catalog has told of it twice
        if self.requests:
            self.requests.wait_for_room()
            if self.known.find_by_key(table.key):
                self._leave_out(table.dotted_name, "the planner has come to know it by itself")
                return False
        expiry = self._try_read(table.dotted_name, partial(self.lake.first_expiry, table))
        if expiry is None:
            return False
        if self.requests:
            self.requests.request_table(table)
        self._asked[table.key] = table
        self.tally.asked += 1
        self.report.report_adoption(newcomer, expiry)
        return True

    def _try_read(self, name: str, read: Callable[[], T]) -> T | None:
        """Return what was read; None, and report it, if it could not be read."""
        try:
            found = read()
        except Gone as gone:
            self._leave_out(name, str(gone))
        except Unreadable as error:
            self._count_unread(name, str(error), isinstance(error, Outage))
        except Exception as error:  # what is odd about one table is said of it alone
            self._count_unread(name, f"{type(error).__name__}: {error}", is_outage=False)
        else:
            self._unread_in_a_row = 0
            return found
        return None

    def _leave_out(self, name: str, why: str) -> None:
        self.tally.left_out += 1
        self.report.report_left_out(name, why)

    def _count_unread(self, name: str, why: str, is_outage: bool) -> None:
        self.tally.unread += 1
        self._unread_in_a_row = self._unread_in_a_row + 1 if is_outage else 0
        self.report.report_unread(name, why)
        if self._unread_in_a_row >= UNREAD_IN_A_ROW:
            raise AdoptionStopped(
                f"{UNREAD_IN_A_ROW} tables in a row had no answer: see that catalog and "
                "storage answer, then start this again: it goes on where it stopped"
            )

    def _tell_progress(self, ranked: int, spent_s: float) -> None:
        done = self.tally.asked
        left = ranked if self.most is None else min(ranked, self.most - done)
        self.report.report_progress(done, left, left * spent_s / done)
