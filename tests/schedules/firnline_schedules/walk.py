"""All schedules up to a depth: a tree of steps, each node of which is run once."""

from __future__ import annotations

import zlib
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from firnline_schedules.lab import Lab, State
from firnline_schedules.oracle import Broken

WRITERS_BEFORE_A_START = 1
THINNED_AT = 2  # steps; all schedules of that length run


@dataclass
class Walk:
    """Schedules of one table, `depth` steps at most. Of the beginnings of two steps every `thin`-th
    is gone on with, always the same ones."""

    lab: Lab
    depth: int
    thin: int = 1
    schedules: Counter[int] = field(default_factory=Counter)  # by length
    steps: int = 0
    broken: list[Broken] = field(default_factory=list)

    def run(self) -> None:
        self._from(self.lab.start)

    def _from(self, state: State) -> None:
        self.lab.set(state)
        words = state.words
        for word in self.lab.possible(deliveries_alone=len(words) + 1 == self.depth):
            if self._wanted(words, word):
                self._step(state, word)

    def _wanted(self, words: Sequence[str], word: str) -> bool:
        """Bounds and pruning; tests/schedules/README.md gives the reason for each."""
        left, started = self.depth - len(words), any(map(is_start, words))
        if not started and left == 2:
            return is_start(word)
        if not started and not is_start(word) and len(words) >= WRITERS_BEFORE_A_START:
            return False
        if words and is_start(words[-1]) and is_start(word) and word < words[-1]:
            return False
        if words and words[-1] == word == "expire":
            return False
        return is_delivery(word) or self._goes_on((*words, word))

    def _step(self, state: State, word: str) -> None:
        storage, words = self.lab.ground.storage, (*state.words, word)
        self.lab.set(state)
        before, known = storage.mark(self.lab.ground.jvm), self.lab.table.known
        self.steps += 1
        try:
            self.lab.run(word)
        except Broken as broken:
            self.broken.append(broken)
        else:
            self.schedules[len(words)] += is_delivery(word)
            if len(words) < self.depth and self._goes_on(words):
                self._from(self.lab.state)
        storage.back_to(before)
        self.lab.table.back_to(known)

    def _goes_on(self, words: Sequence[str]) -> bool:
        at_the_cut = len(words) == THINNED_AT
        return not at_the_cut or zlib.crc32(" ".join(words).encode()) % self.thin == 0


def is_start(word: str) -> bool:
    return word.startswith("start")


def is_delivery(word: str) -> bool:
    return word.startswith("deliver")
