"""Settings of a run: its catalog, and its limits on this machine."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from firnline_domain.commits.output_lifetimes import Lifetimes
from firnline_domain.records.signing import Keyring
from firnline_iceberg.connection.configuration import Connections
from firnline_iceberg.connection.connection import CatalogConnection
from firnline_iceberg.outputs.write_ahead_list import UNSIGNED
from firnline_worker.settings import WorkerSettings

NOBODY = "-"  # a server that a run does without
GIB = 1024**3


@dataclass(frozen=True)
class StandaloneSettings:
    """Settings of a run. `keys`: of the write-ahead lists; a fleet's, if there is one. `share`: of
    the commits that are read back by Iceberg's own reader."""

    catalog: CatalogConnection
    catalogs: Connections  # all that are configured, the run's own among them
    iceberg_jar: Path
    state_dir: Path  # of this process alone
    spark_master: str = "local[*]"
    heap_bytes: int = GIB
    commit_heap_bytes: int = GIB // 2
    delete_set_bytes: int = GIB
    lives: Lifetimes = field(default_factory=Lifetimes)
    keys: Keyring = UNSIGNED
    share: float = 0.0
    tasks_at_once: int = 2
    config: str | None = None  # firnline.toml, for what it says of Spark

    def of_worker(self) -> WorkerSettings:
        """Return the settings for the worker's parts."""
        return _OfRun(
            kafka=NOBODY,
            redis=NOBODY,
            config=self.config,
            reached=self.catalog,
            iceberg_jar=str(self.iceberg_jar),
            state_dir=str(self.state_dir),
            heap_bytes=self.heap_bytes,
            spark_master=self.spark_master,
            delete_set_bytes=self.delete_set_bytes,
        )


@dataclass(frozen=True, kw_only=True)
class _OfRun(WorkerSettings):
    """Settings of a worker whose catalog is chosen already."""

    reached: CatalogConnection

    @cached_property
    def connections(self) -> Connections:
        """Return the connection to the run's only catalog."""
        return {self.reached.name: self.reached}
