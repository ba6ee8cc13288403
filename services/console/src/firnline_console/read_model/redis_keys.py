"""Every Redis key of the read model, written by `RedisReadModel` and its `Writer` only."""

from __future__ import annotations

from dataclasses import dataclass

PREFIX = "firnline:view:"


@dataclass(frozen=True)
class RedisKeys:
    """The names under one prefix; tests take a prefix of their own."""

    prefix: str = PREFIX

    def __getitem__(self, name: str) -> str:
        if name not in NAMES:
            raise KeyError(name)
        return self.prefix + name

    def keys_to_clear(self) -> list[str]:
        """Return the keys to delete when the view is cleared. `seq` stays: cursors into the events
        never go back."""
        return [self.prefix + name for name in NAMES if name != "seq"]


NAMES = {
    "built": "hash: generation, built_at_ms. Gone = Redis lost its data, the view is rebuilt",
    "version": "counter, raised by every write; what optimistic transactions watch",
    "totals": "hash: name -> sum over all tables, tasks and dead letters",
    "tables": "sorted set: table key by the version that changed its TableView, dropped ones too",
    "dropped": "sorted set: table key by the time of the drop; bounded",
    "table-docs": "hash: table key -> TableView",
    "state-docs": "hash: table key -> TableStates, all refs and partitions",
    "names": "sorted set, all scores 0: dotted name, NUL, table key",
    "members": "hash: table key or task id -> its member of `names` or `table-tasks`, to find it",
    "tasks": "sorted set: task id by the time of its last change; bounded",
    "task-docs": "hash: task id -> TaskView",
    "open-tasks": "sorted set: task id by deadline, of tasks without an outcome",
    "table-tasks": "sorted set, all scores 0: table key, NUL, time in hexadecimal, NUL, task id",
    "letters": "sorted set: place of a dead letter by its time; bounded",
    "letter-docs": "hash: place -> LetterView",
    "advice-docs": "hash: table key -> AdviceView",
    "advised": "sorted set: table key by the number of recommendations",
    "pause-docs": "hash: table key or fleet -> PauseView",
    "events": "sorted set: event id by its time; bounded",
    "event-order": "sorted set: event id by its number of arrival",
    "event-docs": "hash: event id -> EventView",
    "seq": "counter: the number of the last event that arrived",
}
