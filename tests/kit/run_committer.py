"""The committer as `firnline run` has it: by way of topics in memory, results decoded anew."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from firnline_adapters.observability.logs import Log
from firnline_committer.handlers import CommitterHandlers
from firnline_standalone.engine import Engine, RunTopics


@dataclass(frozen=True)
class RunCommitter:
    """Stands where `CommitterHandlers` stand."""

    handlers: CommitterHandlers

    def handle(self, records: Sequence[Any]) -> list[Any]:
        """Each record's event, by the engine's pump."""
        topics = RunTopics.create()
        with ThreadPoolExecutor(1) as executor:
            engine = Engine(_NO_TASKS, self.handlers, topics, executor, Log("test"))
            return engine.commit(records)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.handlers, name)


_NO_TASKS: Any = None
