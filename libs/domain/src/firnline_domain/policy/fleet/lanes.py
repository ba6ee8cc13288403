"""The lane of an order: big delete sets, and what ran out of memory, go where there is room.

Pure. Workers that take both lanes give each its share of their places.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from enum import StrEnum

from firnline_domain.counters.state.work import Partition
from firnline_domain.settings.groups import DEFAULT, FORM, Group, group_names
from firnline_domain.settings.thresholds import Thresholds

# A delete record in a worker's set, at most: `set_sizes` of the worker for one key of text, which
# Iceberg takes for 54 bytes. Longer ones count with what they take in their file.
RECORD_BYTES, TEXT_BYTES = 18, 81
TURNS = 10  # after so many orders of both lanes each had its share


class Lane(StrEnum):
    """Queue of an order."""

    ORDINARY = "ordinary"
    HEAVY = "heavy"


TOPICS = {Lane.ORDINARY: "rewrite-tasks", Lane.HEAVY: "rewrite-tasks-heavy"}
LANES = {topic: lane for lane, topic in TOPICS.items()}
BEFORE_GROUP = "."  # which no name of a group has, nor one of the two topics


def lane_topic(lane: Lane, group: str = DEFAULT) -> str:
    """Return the topic where the orders of a group wait."""
    return f"{TOPICS[lane]}{BEFORE_GROUP}{group}" if group else TOPICS[lane]


def topics_of_group(group: str) -> list[str]:
    """Return the topics with the rewrites of a group, one for each queue."""
    return [lane_topic(lane, group) for lane in Lane]


def topics_of_groups(groups: Collection[Group]) -> list[str]:
    """Return the topics of all groups but the default one."""
    return [topic for name in group_names(groups) for topic in topics_of_group(name)]


def lane_at(topic: str) -> Lane:
    """Return the queue of the tasks on a topic; tasks other than rewrites are in the ordinary
    one."""
    return LANES.get(topic.partition(BEFORE_GROUP)[0], Lane.ORDINARY)


def group_at(topic: str) -> str | None:
    """Return the group of the rewrites on a topic; None for a topic without one."""
    of_lane, dot, group = topic.partition(BEFORE_GROUP)
    is_one = of_lane in LANES and (not dot or FORM.fullmatch(group))
    return group if is_one else None


def set_bytes(partition: Partition) -> int:
    """Return an upper estimate of the delete sets of a rewrite, in bytes, by counters only."""
    deletes = partition.counters.holds.equality_deletes
    return deletes.records * RECORD_BYTES + max(
        deletes.records * TEXT_BYTES, deletes.bytes * 3 // 2
    )


def lane_of(partition: Partition, limits: Thresholds) -> Lane:
    """Return the heavy queue for big delete sets, and after a failure for lack of memory until
    several rewrites in a row succeeded (`progress.after_success`); else the ordinary one."""
    return _choose_lane(partition.work.out_of_memory, set_bytes(partition), limits.heavy_bytes)


def lane_of_order(numbers: Mapping[str, float]) -> Lane:
    """Return the queue that a task was sent to, by its own numbers (`decide.price_numbers`)."""
    names = ("out_of_memory", "delete_set_bytes", "heavy_bytes")
    return _choose_lane(*(numbers.get(name, 0) for name in names))


def _choose_lane(out_of_memory: float, set_size: float, most: float) -> Lane:
    return Lane.HEAVY if out_of_memory > 0 or set_size > most else Lane.ORDINARY


@dataclass
class LaneRotation:
    """Whose turn it is where both lanes wait: `heavy` of ten orders are heavy ones, spread evenly.

    A lane without orders loses nothing by it, and gains nothing either: it is not made up for.
    """

    heavy: int = 2
    _turn: int = 0

    def next_lane(self, waiting: Collection[Lane]) -> Lane | None:
        """Return the lane of the next order, of those that have one; None where nothing waits."""
        if not waiting:
            return None
        due = self._due_lane()
        if len(waiting) == 1:
            [only] = waiting
            self._turn += only is due
            return only
        self._turn += 1
        return due

    def _due_lane(self) -> Lane:
        before, after = (turn * self.heavy // TURNS for turn in (self._turn, self._turn + 1))
        return Lane.HEAVY if after > before else Lane.ORDINARY
