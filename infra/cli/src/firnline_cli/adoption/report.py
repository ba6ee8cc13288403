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
from firnline_cli.adoption.run import AdoptionTally
from firnline_cli.shared.formats import count_of, plain, print_wrapped, size_text

NAMED = 20  # tables of one standing that a person is told by name
PROGRESS_EVERY = 100  # tables between two lines about the progress
LISTED_EVERY = 1_000


class TextAdoptionReport:
    """A `run.Report` as text. Tables go to the output, all else to stderr."""

    def __init__(self, dry_run: bool) -> None:
        self._verb = "would adopt" if dry_run else "adopting"
        self._dry_run = dry_run

    def report_listed(self, count: int) -> None:
        if count % LISTED_EVERY == 0:
            print_wrapped(f"{count:,} tables looked at", err=True)

    def report_adoption(self, table: Newcomer, expiry: FirstExpiry) -> None:
        text = (
            f"{self._verb} {table.table.dotted_name}  {figures_text(table)}; {expiry_words(expiry)}"
        )
        print_wrapped(plain(text))

    def report_left_out(self, name: str, why: str) -> None:
        print_wrapped(plain(f"left out {name}: {why}"), fg="yellow", err=True)

    def report_unread(self, name: str, why: str) -> None:
        print_wrapped(plain(f"not read {name}: {why}"), fg="red", err=True)

    def report_progress(self, done: int, left: int, left_s: float) -> None:
        if done % PROGRESS_EVERY == 0 and not self._dry_run:
            print_wrapped(
                f"{done:,} adopted, {left:,} to go, about {duration_text(left_s)}", err=True
            )

    def report_waiting(self, why: str) -> None:
        """Report that nothing is requested until something moves."""
        print_wrapped(f"waiting: {why}", err=True)

    def report_standings(self, tables: Sequence[CountedTable]) -> None:
        """Print what is done with the tables that are counted now, and how to change it."""
        for standing in Standing:
            names = sorted(one.table.dotted_name for one in tables if one.standing is standing)
            if names:
                more = f" and {len(names) - NAMED:,} more" if len(names) > NAMED else ""
                shown = f"{', '.join(names[:NAMED])}{more}"
                print_wrapped(
                    plain(f"{count_of(len(names), 'table')} {standing.words}. {shown}"), hang=2
                )

    def sum_up(self, tally: AdoptionTally, unanswered: list[TableName]) -> None:
        """Print the last line."""
        for table in unanswered:
            print_wrapped(
                plain(f"no answer {table.dotted_name}: see `dead-letters`"), fg="red", err=True
            )
        did = "would be adopted" if self._dry_run else "were adopted"
        print_wrapped(
            f"{tally.asked - len(unanswered):,} tables {did}; {tally.listed:,} listed, "
            f"{tally.known:,} known to the planner before, {tally.left_out:,} left out, "
            f"{tally.unread:,} not read, {len(unanswered):,} without an answer."
        )


class JsonAdoptionReport:
    """A `run.Report` as JSON, one object a line; `what` tells them apart."""

    def report_listed(self, count: int) -> None:
        if count % LISTED_EVERY == 0:
            self._print_json("listed", count=count)

    def report_adoption(self, table: Newcomer, expiry: FirstExpiry) -> None:
        numbers = {k: v for k, v in to_plain(table).items() if k != "table"}
        names = {
            "table": table.table.dotted_name,
            "uuid": table.table.uuid,
            "catalog": table.table.catalog_path,
        }
        self._print_json("adopting", **names, **numbers, expiry=to_plain(expiry))

    def report_left_out(self, name: str, why: str) -> None:
        self._print_json("left_out", table=name, why=why)

    def report_unread(self, name: str, why: str) -> None:
        self._print_json("unread", table=name, why=why)

    def report_progress(self, done: int, left: int, left_s: float) -> None:
        if done % PROGRESS_EVERY == 0:
            self._print_json("progress", done=done, left=left, left_s=round(left_s))

    def report_waiting(self, why: str) -> None:
        self._print_json("waiting", why=why)

    def report_standings(self, tables: Sequence[CountedTable]) -> None:
        for one in tables:
            names = {"table": one.table.dotted_name, "uuid": one.table.uuid}
            self._print_json(
                "standing", **names, catalog=one.table.catalog_path, is_now=one.standing
            )

    def sum_up(self, tally: AdoptionTally, unanswered: list[TableName]) -> None:
        self._print_json(
            "ended", **asdict(tally), unanswered=[one.dotted_name for one in unanswered]
        )

    def _print_json(self, what: str, **fields: object) -> None:
        click.echo(json.dumps({"what": what, **fields}))


def figures_text(table: Newcomer) -> str:
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
        begins = f"{duration_text(expiry.grace_ms / 1000)} after it is announced"
    return (
        f"{going.snapshots:,} of {expiry.snapshots:,} snapshots are old enough to be expired, with "
        f"{going.files:,} files of about {size_text(going.bytes)}, {begins}"
    )


def duration_text(seconds: float) -> str:
    """Return `40 s`, `12 min`, `5.3 h`."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5_400 else f"{seconds / 3_600:.1f} h"
