"""When to send a commit to a table in which rows are deleted every second or so.

Whoever plans a DELETE, UPDATE or MERGE names the files that it has read, and fails when a rewrite
replaces them before it commits. Right after such a commit its writer has most probably not begun
the next statement: then our commit makes the fewest of theirs fail, and has the longest time until
the next one moves the head.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from statistics import median

from firnline_domain.records.summaries import TASK_ID, number_in

REMEMBERED = 8  # commits that a beat is told from
FEWEST = 2  # that make a beat: waiting in vain costs seconds, a failed statement its work
LONGEST_MS = 2_500  # from one to the next; slower ones are rarely met, and long to wait for
SILENT = 3  # beats without a commit: it has ended
RACE = 5  # commits that tell a head which moves while one of ours is made
RACE_MS = 10_000  # within which they came, and since which the last one did
_ADDED = ("added-position-deletes", "added-dvs")


def names_rows(summary: Mapping[str, str], operation: str) -> bool:
    """Whether a snapshot is of a writer that names files which it has read (see `heat`).

    Position deletes that come with equality deletes are a streaming writer's, of its own files;
    those of a `replace` are maintenance, as our own conversions are.
    """
    ours = operation == "replace" or summary.get(TASK_ID)  # PyIceberg's has every key
    if ours or number_in(summary, "added-equality-deletes"):
        return False
    rewritten = operation == "overwrite" and number_in(summary, "deleted-data-files")
    return bool(rewritten) or any(number_in(summary, name) for name in _ADDED)


def beat_ms(newest_first: Sequence[int], now_ms: int) -> int | None:
    """Milliseconds from one such commit to the next, by their timestamps; None where they are too
    few, too slow, or over."""
    times = newest_first[:REMEMBERED]
    if len(times) < FEWEST:
        return None
    beat = int(median(a - b for a, b in pairwise(times)))
    alive = now_ms - times[0] < SILENT * beat
    return beat if 0 < beat <= LONGEST_MS and alive else None


def races(newest_first: Sequence[int], now_ms: int) -> bool:
    """Whether a table's head moves every other second, by the timestamps of its last commits."""
    times = newest_first[:RACE]
    return len(times) == RACE and times[0] - times[-1] < RACE_MS and now_ms - times[0] < RACE_MS
