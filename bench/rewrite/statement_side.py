"""Spark SQL writers as a process of their own: MERGE and DELETE statements without a pause, each
writer in a partition of its own, so that no two of them ever conflict with each other.

They keep book: which rows of the keys they touched must be there in the end.
"""

from __future__ import annotations

import random
import threading
import time
from dataclasses import dataclass, field
from itertools import count
from typing import Any

from pyspark.sql import SparkSession

from bench.rewrite import stock_side
from bench.rewrite.child import Act, Question, serve
from bench.rewrite.engines import Engine

SPARK = Engine(
    "statements",
    "bench.rewrite.statement_side",
    {"cores": 2, "heap": "2g", "configuration": {}, "options": {}},
)
MERGED, DELETED = 20, 2  # rows of a statement
DELETE_EVERY = 3  # each third statement
SEED = 7


@dataclass
class Book:
    """What one writer did."""

    newest: dict[int, int] = field(default_factory=dict)  # id -> quantity of its last MERGE
    deleted: set[int] = field(default_factory=set)
    doubtful: set[int] = field(default_factory=set)  # nobody knows whether it was committed
    took_s: list[float] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)


@dataclass
class Writer:
    """One thread's statements on the keys of one partition."""

    spark: SparkSession
    table: str
    partition: str
    keys: list[int]
    dice: random.Random
    stop: threading.Event
    book: Book = field(default_factory=Book)

    def run(self) -> None:
        for number in count(1):
            if self.stop.is_set():
                return
            chosen = self.dice.sample(self.keys, MERGED)
            if number % DELETE_EVERY:
                self._try(*self._merge(number, chosen))
            else:
                self._try(*self._delete(chosen[:DELETED]))

    def _merge(self, number: int, ids: list[int]) -> tuple[str, dict[int, int | None]]:
        version = number + (1 << 40)  # a quantity that the table does not have
        rows = ", ".join(f"({one}L, {version}L)" for one in ids)
        statement = (
            f"MERGE INTO {self.table} t USING (SELECT * FROM VALUES {rows} AS s(id, version)) s "
            f"ON t.p = '{self.partition}' AND t.id = s.id "
            "WHEN MATCHED THEN UPDATE SET quantity = s.version"
        )
        return statement, {one: version for one in ids if one not in self.book.deleted}

    def _delete(self, ids: list[int]) -> tuple[str, dict[int, int | None]]:
        listed = ", ".join(f"{one}L" for one in ids)
        where = f"p = '{self.partition}' AND id IN ({listed})"
        return f"DELETE FROM {self.table} WHERE {where}", dict.fromkeys(ids)

    def _try(self, statement: str, after: dict[int, int | None]) -> None:
        """`after`: what the keys' rows are then, None = gone."""
        since = time.monotonic()
        try:
            self.spark.sql(statement)
        except Exception as error:  # Spark's and py4j's; the next statement is tried all the same
            self.book.failures.append(str(error)[:300])
            if "CommitStateUnknown" in str(error):
                self.book.doubtful |= after.keys()
        else:
            for key, version in after.items():
                if version is None:
                    self.book.deleted.add(key)
                    self.book.newest.pop(key, None)
                else:
                    self.book.newest[key] = version
        self.book.took_s.append(time.monotonic() - since)


@dataclass
class Writers:
    """Those of one table, from `begin` to `end`."""

    spark: SparkSession
    stop: threading.Event = field(default_factory=threading.Event)
    writers: list[Writer] = field(default_factory=list)
    threads: list[threading.Thread] = field(default_factory=list)

    def act(self, question: Question) -> dict[str, Any]:
        return self._begin(question) if "keys" in question else self._end()

    def _begin(self, question: Question) -> dict[str, Any]:
        """`keys`: of each writer's partition, by the partition's name."""
        self.stop = threading.Event()
        table = f"lake.bench.{question['table']}"
        self.writers = [
            Writer(self.spark, table, partition, keys, random.Random(f"{SEED}{partition}"),
                   self.stop)
            for partition, keys in question["keys"].items()
        ]  # fmt: skip
        self.threads = [threading.Thread(target=one.run) for one in self.writers]
        for thread in self.threads:
            thread.start()
        return {}

    def _end(self) -> dict[str, Any]:
        self.stop.set()
        for thread in self.threads:
            thread.join()
        books = [one.book for one in self.writers]
        return {
            "took_s": [took for book in books for took in book.took_s],
            "failures": [failure for book in books for failure in book.failures],
            "rows_right": all(self._right(one) for one in self.writers),
        }

    def _right(self, writer: Writer) -> bool:
        """Each key that was touched has the row that its last statement left."""
        book = writer.book
        touched = sorted((book.newest.keys() | book.deleted) - book.doubtful)
        if not touched:
            return True
        listed = ", ".join(f"{one}L" for one in touched)
        found = self.spark.sql(
            f"SELECT id, quantity FROM {writer.table} "
            f"WHERE p = '{writer.partition}' AND id IN ({listed})"
        ).collect()
        expected = {key: book.newest[key] for key in touched if key in book.newest}
        return sorted(map(tuple, found)) == sorted(expected.items())


def start(given: Question) -> Act:
    """A session on the given catalog."""
    return Writers(stock_side.session(given)).act


if __name__ == "__main__":
    serve(start)
