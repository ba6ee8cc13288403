"""Reports an adoption, as lines of text and as JSON."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict

import click
from firnline_domain.base.values import to_plain
from firnline_domain.identity import TableName

from firnline_cli.adoption.counted_tables import CountedTable, Standing
from firnline_cli.adoption.newcomers import FirstExpiry, Newcomer
from firnline_cli.adoption.run import Tally
from firnline_cli.shared.formats import counted, plain, say, size

NAMED = 20  # tables of one standing that a person is told by name
PROGRESS_EVERY = 100  # tables between two lines about the progress
LISTED_EVERY = 1_000


class TextReport:
    """A `run.Report` as text. Tables go to the output, all else to stderr."""

    def __init__(self, dry_run: bool) -> None:
        self._verb = "would adopt" if dry_run else "adopting"
        self._dry_run = dry_run

    def listed(self, count: int) -> None:
        if count % LISTED_EVERY == 0:
            say(f"{count:,} tables looked at", err=True)

    def adopting(self, table: Newcomer, expiry: FirstExpiry) -> None:
        text = f"{self._verb} {table.table.dotted}  {figures(table)}; {expiry_words(expiry)}"
        say(plain(text))

    def left_out(self, name: str, why: str) -> None:
        say(plain(f"left out {name}: {why}"), fg="yellow", err=True)

    def unread(self, name: str, why: str) -> None:
        say(plain(f"not read {name}: {why}"), fg="red", err=True)

    def progress(self, done: int, left: int, left_s: float) -> None:
        if done % PROGRESS_EVERY == 0 and not self._dry_run:
            say(f"{done:,} adopted, {left:,} to go, about {duration(left_s)}", err=True)

    def waiting(self, why: str) -> None:
        """Report that nothing is requested until something moves."""
        say(f"waiting: {why}", err=True)

    def standings(self, tables: Sequence[CountedTable]) -> None:
        """Print what is done with the tables that are counted now, and how to change it."""
        for standing in Standing:
            names = sorted(one.table.dotted for one in tables if one.standing is standing)
            if names:
                more = f" and {len(names) - NAMED:,} more" if len(names) > NAMED else ""
                shown = f"{', '.join(names[:NAMED])}{more}"
                say(plain(f"{counted(len(names), 'table')} {standing.words}. {shown}"), hang=2)

    def sum_up(self, tally: Tally, unanswered: list[TableName]) -> None:
        """Print the last line."""
        for table in unanswered:
            say(plain(f"no answer {table.dotted}: see `dead-letters`"), fg="red", err=True)
        did = "would be adopted" if self._dry_run else "were adopted"
        say(
            f"{tally.asked - len(unanswered):,} tables {did}; {tally.listed:,} listed, "
            f"{tally.known:,} known to the planner before, {tally.left_out:,} left out, "
            f"{tally.unread:,} not read, {len(unanswered):,} without an answer."
        )


class JsonReport:
    """A `run.Report` as JSON, one object a line; `what` tells them apart."""

    def listed(self, count: int) -> None:
        if count % LISTED_EVERY == 0:
            self._tell("listed", count=count)

    def adopting(self, table: Newcomer, expiry: FirstExpiry) -> None:
        numbers = {k: v for k, v in to_plain(table).items() if k != "table"}
        names = {
            "table": table.table.dotted,
            "uuid": table.table.uuid,
            "catalog": table.table.catalog_path,
        }
        self._tell("adopting", **names, **numbers, expiry=to_plain(expiry))

    def left_out(self, name: str, why: str) -> None:
        self._tell("left_out", table=name, why=why)

    def unread(self, name: str, why: str) -> None:
        self._tell("unread", table=name, why=why)

    def progress(self, done: int, left: int, left_s: float) -> None:
        if done % PROGRESS_EVERY == 0:
            self._tell("progress", done=done, left=left, left_s=round(left_s))

    def waiting(self, why: str) -> None:
        self._tell("waiting", why=why)

    def standings(self, tables: Sequence[CountedTable]) -> None:
        for one in tables:
            names = {"table": one.table.dotted, "uuid": one.table.uuid}
            self._tell("standing", **names, catalog=one.table.catalog_path, is_now=one.standing)

    def sum_up(self, tally: Tally, unanswered: list[TableName]) -> None:
        self._tell("ended", **asdict(tally), unanswered=[one.dotted for one in unanswered])

    def _tell(self, what: str, **fields: object) -> None:
        click.echo(json.dumps({"what": what, **fields}))


def figures(table: Newcomer) -> str:
    """Return `1,204 files, 310 delete files (5,000 equality deletes), weight 12.3`."""
    deletes = f", {table.delete_files:,} delete files" if table.delete_files else ""
    rows = f" ({table.equality_deletes:,} equality deletes)" if table.equality_deletes else ""
    return f"{table.data_files:,} files{deletes}{rows}, weight {table.weight:.3g}"


def expiry_words(expiry: FirstExpiry) -> str:
    """Return what is deleted first, and when; `no snapshot is expired (gc disabled)`."""
    if expiry.reason:
        return f"no snapshot is expired ({expiry.reason.replace('_', ' ')})"
    going, begins = expiry.going, "now"
    if expiry.grace_ms:
        begins = f"{duration(expiry.grace_ms / 1000)} after it is announced"
    return (
        f"{going.snapshots:,} of {expiry.snapshots:,} snapshots are old enough to be expired, with "
        f"{going.files:,} files of about {size(going.bytes)}, {begins}"
    )


def duration(seconds: float) -> str:
    """Return `40 s`, `12 min`, `5.3 h`."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5_400 else f"{seconds / 3_600:.1f} h"
