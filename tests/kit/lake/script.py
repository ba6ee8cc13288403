"""Steps of a table as text: what a guard's table or a failing case is written in.

    append 1 2 | append 3 | rewrite groups=2 | eq_delete 1 | expire

Rows are `id` or `id:v` (v is 1). f1, f2 ... are files in the order in which writers made them, s1,
s2 ... heads after each step. `p=a` is a partition. `rewrite` plans and writes, and commits nothing.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from firnline_domain.base.values import replace
from firnline_domain.records.results import RewriteFinished
from firnline_iceberg.scan.planning import live_files

from tests.kit.lake.scenario import CommitScenario
from tests.kit.lake.table import Row
from tests.kit.lake.writer import described


def parse_rows(text: str) -> list[Row]:
    """`1 2:5` as rows (1, 1) and (2, 5)."""
    return [(int(k), int(v or 1)) for k, _, v in (word.partition(":") for word in text.split())]


@dataclass
class Script:
    """Plays text on a table. `result`: the last rewrite."""

    table: CommitScenario
    files: list[str] = field(default_factory=list)
    snapshots: list[int] = field(default_factory=list)
    results: list[RewriteFinished] = field(default_factory=list)

    @property
    def result(self) -> RewriteFinished:
        return self.results[-1]

    def play(self, text: str) -> RewriteFinished:
        """The last rewrite. Raises AttributeError where a word is no step."""
        for line in text.split("|"):
            word, *rest = line.split()
            named = dict(one.split("=") for one in rest if "=" in one)
            getattr(self, f"_{word}")(*(one for one in rest if "=" not in one), **named)
            if word not in ("rewrite", "unmasked"):
                self.snapshots.append(self.table.head)
        return self.result

    def _file(self, name: str) -> str:
        return self.files[int(name[1:]) - 1]

    # ---- steps, by their words

    def _append(self, *rows: str, p: str | None = None) -> None:
        self.files.append(self.table.append(*parse_rows(" ".join(rows)), p=p))

    def _eq_delete(self, *keys: str, p: str | None = None) -> None:
        scope = self.table.scope(p)
        self.files.append(self.table.delete_ids(*map(int, keys), scope=scope))

    def _pos_delete(self, name: str, *positions: str) -> None:
        self.files.append(self.table.delete_rows(self._file(name), *map(int, positions)))

    def _again(self, name: str) -> None:
        """The same file a second time, as `add_files` does that is run twice."""
        live, path = live_files(self.table.loaded, self.table.head), self._file(name)
        entry = next(one for one in (*live.data, *live.deletes) if one.path == path)
        place = entry.spec_id, entry.partition
        if entry in live.data:
            self.table.writer.append(described(place, path, entry.bytes, entry.records))
            return
        size, kind = entry.bytes, "equality-deletes"
        text = described(place, path, size, entry.records, kind, equality_ids=[1])
        self.table.writer.row_delta(deletes=[text])

    def _remove(self, name: str) -> None:
        self.table.remove(self._file(name))

    def _rollback(self, name: str) -> None:
        self.table.roll_back(self.snapshots[int(name[1:]) - 1])

    def _expire(self) -> None:
        self.table.expire_all_but_heads()

    def _rewrite(
        self, p: str | None = None, groups: str = "1", number: str | None = None, map: str = ""
    ) -> None:
        """`map=none`: without the map of its rows."""
        result = self.table.rewrite(p, int(groups), number and int(number))
        self.results.append(replace(result, row_map=None) if map == "none" else result)

    def _unmasked(self) -> None:
        """What was planned, as a worker makes it that applies no delete."""
        groups = tuple(self.table.unmasked(one) for one in self.result.groups)
        self.results.append(replace(self.result, applied_deletes=(), groups=groups))
