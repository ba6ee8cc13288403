"""The function that carries out each action on a table, found in the modules of this package."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from firnline_domain.base.modules import import_modules
from firnline_domain.records.results import TableResult
from firnline_domain.records.signing import Keyring
from firnline_iceberg.commit.java_commits import TableCommits
from firnline_iceberg.table.catalog_client import Tables

from firnline_worker.spark.java_api import JavaTables

CarryOut = Callable[[Any], TableResult]
"""Takes the order of an action. Raises TaskRefused, RetryLater."""
TableActions = Mapping[str, CarryOut]
"""By the action of a `TableOrder`."""
Protected = Callable[[str], Iterable[int]]
"""table key -> snapshots from which running tasks started. May raise: then nothing expires."""


@dataclass(frozen=True)
class ActionTools:
    """Objects that actions use. `worker`: its name, for results."""

    tables: Tables
    java: JavaTables
    commits: TableCommits
    protected: Protected
    worker: str
    now_ms: Callable[[], int]
    keys: Keyring


Build = Callable[[ActionTools], CarryOut]
_BUILDS: dict[str, Build] = {}


def carries_out(action: str) -> Callable[[Build], Build]:
    """Return a decorator that registers the builder of the function that carries out an action."""

    def register(build: Build) -> Build:
        assert action not in _BUILDS, action
        _BUILDS[action] = build
        return build

    return register


def build_table_actions(tools: ActionTools) -> TableActions:
    """Return the function that carries out each action."""
    import_modules(__name__.rpartition(".")[0])
    return {action: build(tools) for action, build in _BUILDS.items()}
