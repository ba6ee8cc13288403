"""Commits through Iceberg's Java API that may be a worker's last, or come after somebody else's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from firnline_domain.identity import TableName
from firnline_iceberg.commit.java_commits import JavaCommits
from firnline_iceberg.commit.rewrite import Outcome


class Killed(BaseException):
    """The worker's end: nothing catches it to clear away what only a living process could."""


def die() -> None:
    raise Killed


class MeddledCommits:
    """`before` and `after`: what happens beside the n-th commit, counted from 0."""

    def __init__(self, commits: JavaCommits) -> None:
        self.commits = commits
        self.before = dict[int, Callable[[], Any]]()
        self.after = dict[int, Callable[[], Any]]()
        self.count = 0

    def for_table(self, table: TableName) -> MeddledCommits:
        """See `JavaCommits.for_table`."""
        return self

    def commit(self, table: TableName, ref: str, head: int, rewrites: Any, **more: Any) -> Outcome:
        """See `JavaCommits.commit`."""
        number, self.count = self.count, self.count + 1
        self.before.pop(number, lambda: None)()
        outcome = self.commits.commit(table, ref, head, rewrites, **more)
        self.after.pop(number, lambda: None)()
        return outcome

    def begin(self, table: TableName) -> None:
        """See `JavaCommits.begin`."""
        self.commits.begin(table)
