"""Carries out an action in this process."""

from __future__ import annotations

import logging
import os
import shutil
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from firnline_adapters import clock
from firnline_adapters.config.redaction import redact
from firnline_adapters.observability.logs import start_logging
from firnline_domain.commits.output_lifetimes import Lifetimes
from firnline_domain.errors import Misconfigured, RetryLater, TaskRefused
from firnline_domain.identity import TableName
from firnline_domain.policy.cost.cost_benefit import Action
from firnline_domain.policy.operator_requests import RequestedAction
from firnline_domain.policy.triggers.full_rewrites import FREEZE
from firnline_domain.policy.triggers.v2_deletes import UPGRADE
from firnline_domain.records.orders import RewriteFiles
from firnline_domain.records.signing import Keyring
from firnline_domain.settings.thresholds import Thresholds
from firnline_iceberg.catalogs import OneCatalogTables
from firnline_iceberg.metadata.avro_reader import MetadataFileGone

from firnline_cli.forecast.catalog import Forecasts, Unread
from firnline_cli.running.already_rewritten import rested_scopes
from firnline_cli.running.report import JsonRunReport, TextRunReport
from firnline_cli.running.tasks import Chosen, choose_tasks, pass_over
from firnline_cli.shared.fleet import FleetClient

if TYPE_CHECKING:
    from firnline_standalone.runs import TaskBatches

SIGNING_KEYS = "FIRNLINE_SIGNING_KEYS"
DONE, FAILED, MISCONFIGURED = 0, 1, 2
SHOWN_CHARS = 4_000  # of what the JVMs said
INTERRUPTED = 130  # as a shell says of Ctrl-C


@dataclass
class Here:
    """One request that is carried out in this process."""

    fleet: FleetClient
    table: TableName
    requested: RequestedAction
    defaults: Thresholds
    json_wanted: bool
    config: str | None = None

    def __post_init__(self) -> None:
        self._report: Any = JsonRunReport() if self.json_wanted else TextRunReport()
        self._tables = OneCatalogTables(self.fleet.connection_for(self.table), self.fleet.catalogs)

    def preview(self) -> int:
        """Print what would be done. Return the exit code. Raises ClickException."""
        from firnline_standalone.previews import Preview, preview

        now_ms = clock.now_ms()
        found = self._choose_tasks(now_ms)
        shown = []
        if not found.orders:
            self._report.report_nothing("")
            return DONE
        for order in found.orders:
            try:
                shown.append((order, preview(self._tables, order, now_ms)))
            except TaskRefused as refused:
                shown.append((order, Preview(refused=f"{refused.reason}: {refused}")))
            except (RetryLater, MetadataFileGone) as error:
                raise click.ClickException(str(error)) from None
        self._report.show_previews(shown)
        return FAILED if any(one.refused for _, one in shown) else DONE

    def execute(self, heap_bytes: int, verify: bool) -> int:
        """Carry out the action. Return the exit code. Raises ClickException."""
        self._report.show_activity("reading the table")
        self._sweep_leftovers()
        found = self._choose_tasks(clock.now_ms())
        if not found.orders:
            self._report.show_activity("")
            self._report.report_nothing("")
            return DONE
        state = Path(tempfile.mkdtemp(prefix="firnline-run-"))
        try:
            with _children_apart(state / "jvm.log"):
                return self._run_tasks(found, state, heap_bytes, verify)
        except Misconfigured as error:
            click.echo(f"Error: {error}", err=True)
            return MISCONFIGURED
        except (RetryLater, TaskRefused) as error:
            raise click.ClickException(str(error)) from None
        finally:
            self._report.show_activity("")
            shutil.rmtree(state, ignore_errors=True)

    def _choose_tasks(self, now_ms: int) -> Chosen:
        forecasts = Forecasts(self._tables, self.defaults, {}, self.fleet.policies)
        found = forecasts.forecast_table((*self.table.namespace, self.table.name), now_ms)
        if isinstance(found, Unread):
            raise click.ClickException(f"{self.table.dotted_name} cannot be read: {found.why}")
        if not found.given.settings.enabled:
            text = f"{self.table.dotted_name} has firnline.enabled=false, or its namespace has"
            raise click.ClickException(f"{text}: its owner wants no maintenance")
        if self.requested.action == FREEZE and not self.requested.names_partitions:
            _refuse_without_hours(found.given.settings)
        made = self._without_rewritten(choose_tasks(found, self.requested))
        self._report.report_passed_over(made.passed_over)
        return made

    def _sweep_leftovers(self) -> None:
        """Remove what killed runs have left, once it is old enough. Raises ClickException."""
        from firnline_iceberg.removal.sweep import OutputSweeper

        sweeper = OutputSweeper(
            self._tables, clock.now_ms, self._lifetimes.sweep_ms, keys=self._keyring()
        )
        try:
            self._report.report_swept(len(sweeper.sweep(self.table).removed))
        except (RetryLater, TaskRefused) as error:
            raise click.ClickException(str(error)) from None

    @property
    def _lifetimes(self) -> Lifetimes:
        """Return the fleet's lifetimes if it has set them: the same age for all processes that
        commit and sweep."""
        from firnline_cli.running.sweep_age import fleets_age_s

        return Lifetimes(fleets_age_s())

    def _keyring(self) -> Keyring:
        """Return the deployment's keys, because its sweeps trust no other list. Without a
        deployment there are no other writers to distinguish."""
        if self.fleet.state is None and SIGNING_KEYS not in os.environ:
            return Keyring()
        keys: Keyring = self.fleet.signer().keys
        return keys

    def _without_rewritten(self, made: Chosen) -> Chosen:
        """Return the choice without what a rewrite of ours has left as it is, unless the partitions
        were named."""
        rewrites = (one for one in made.orders if isinstance(one, RewriteFiles))
        # our own merges leave files that are to be sorted; a sort finds out by itself
        scopes = [one.scope for one in rewrites if one.action != Action.SORT]
        if self.requested.names_partitions or self.requested.action == FREEZE or not scopes:
            return made
        try:
            at_rest = rested_scopes(self._tables.load(self.table), scopes)
        except (RetryLater, TaskRefused, MetadataFileGone) as error:
            raise click.ClickException(str(error)) from None
        return pass_over(made, at_rest)

    def _carry_out(self, run: TaskBatches, found: Chosen) -> bool:
        """Carry out the tasks, a new format version first: deletion vectors need it."""
        upgrade = [one for one in found.orders if one.action == UPGRADE]
        if not upgrade:
            return run.execute(found.orders)
        if not run.execute(upgrade):
            return False
        return run.execute([one for one in self._choose_tasks(clock.now_ms()).orders if one.scope])

    def _run_tasks(self, found: Chosen, state: Path, heap_bytes: int, verify: bool) -> int:
        from firnline_local.servers.artifacts import iceberg_jar
        from firnline_standalone.bootstrap import open_engine
        from firnline_standalone.engine import RunStopped
        from firnline_standalone.runs import TaskBatches
        from firnline_standalone.settings import StandaloneSettings

        log, stop = start_logging("run"), threading.Event()
        _only_warnings()
        settings = StandaloneSettings(
            catalog=self.fleet.connection_for(self.table),
            catalogs=self.fleet.catalogs,
            config=self.config,
            iceberg_jar=iceberg_jar(),
            state_dir=state,
            heap_bytes=heap_bytes,
            keys=self._keyring(),
            share=1.0 if verify else 0.0,
            lives=self._lifetimes,
        )
        self._report.show_activity("starting Spark")
        with open_engine(settings, log, stop) as engine:
            try:
                fine = self._carry_out(TaskBatches(engine, self._report, clock.now_ms), found)
            except RunStopped:
                click.echo("Stopped: what was not committed is cleared away.", err=True)
                return INTERRUPTED
        return DONE if fine else FAILED


@contextmanager
def _children_apart(path: Path) -> Iterator[None]:
    """Redirect the output of the JVMs to a file, and show it if the run breaks off. Users and jobs
    read stderr for what goes wrong."""
    sys.stderr.flush()
    kept, ours = os.dup(2), sys.stderr
    with path.open("wb") as sink:
        os.dup2(sink.fileno(), 2)
    sys.stderr = os.fdopen(os.dup(kept), "w", buffering=1)
    try:
        yield
    except BaseException as error:
        if not isinstance(error, SystemExit | KeyboardInterrupt):
            sys.stderr.write(redact(path.read_text(errors="replace")[-SHOWN_CHARS:]))
        raise
    finally:
        os.dup2(kept, 2)
        os.close(kept)
        sys.stderr = ours  # the log keeps the other one


def _refuse_without_hours(settings: Thresholds) -> None:
    if settings.freeze_after_h <= 0:
        raise click.ClickException(
            "firnline.freeze.after-hours is not set: it says when a partition is closed. Set it, "
            "give --fleet firnline.freeze.after-hours=48, or name a --partition"
        )


def _only_warnings() -> None:
    """Log only warnings: users see the report, and the log is for errors. py4j warns of objects
    that are given back after their JVM has ended."""
    logging.getLogger().setLevel(logging.WARNING)
    logging.getLogger("py4j").setLevel(logging.CRITICAL)
