"""Which files a rewrite takes, and how they are cut into groups. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from firnline_domain.identity import Scope
from firnline_domain.tallies import SizeClass, size_class
from firnline_iceberg.files import DataFileEntry, DeleteFileEntry
from firnline_iceberg.planning import LiveFiles, PlannedFile

Group = tuple[DataFileEntry, ...]


@dataclass(frozen=True)
class Plan:
    """What one task does. No groups = nothing to do."""

    groups: tuple[Group, ...]
    deletes: tuple[DeleteFileEntry, ...]

    @property
    def inputs(self) -> tuple[DataFileEntry, ...]:
        return tuple(file for group in self.groups for file in group)


NOTHING = Plan((), ())


def plan(live: LiveFiles, scope: Scope, target_bytes: int) -> Plan:
    """Take every data file of the scope that any delete applies to, and all fragments if there
    are at least two; apply every delete that applies to any of them.

    Where the inputs are all live data files of the snapshot there are at least two groups if
    there are two inputs: the committer can then commit them as two rewrites in one transaction,
    the first of which leaves an old file alive (Iceberg #10312).
    """
    chosen = _chosen(live.files_of_scope(scope), target_bytes)
    deletes = tuple({d.key: d for file in chosen for d in file.deletes}.values())
    inputs = sorted((f.data for f in chosen), key=lambda f: (f.sequence_number, f.normal))
    least = 2 if len(inputs) == len(live.data) else 1
    groups = grouped(inputs, target_bytes, least)
    if not deletes and len(groups) >= len(inputs):
        return NOTHING  # a merge that would not lessen the files changes nothing
    return Plan(groups, deletes)


def _chosen(files: Sequence[PlannedFile], target_bytes: int) -> list[PlannedFile]:
    fragments = [f for f in files if size_class(f.data.bytes, target_bytes) is SizeClass.FRAGMENT]
    merged = {f.data.normal for f in fragments} if len(fragments) > 1 else set()
    return [f for f in files if f.deletes or f.data.normal in merged]


def grouped(inputs: Sequence[DataFileEntry], target_bytes: int, least: int) -> tuple[Group, ...]:
    """Neighbours by age go together until they fill the target; at least `least` groups, as far
    as there are files for them."""
    groups: list[list[DataFileEntry]] = []
    room = 0
    for file in inputs:
        if not groups or file.bytes > room:
            groups.append([])
            room = target_bytes
        groups[-1].append(file)
        room -= file.bytes
    while len(groups) < min(least, len(inputs)):
        groups = _halved(groups)
    return tuple(tuple(group) for group in groups)


def _halved(groups: list[list[DataFileEntry]]) -> list[list[DataFileEntry]]:
    """Cut the group of most files near the middle of its bytes, both sides kept non-empty."""
    widest = max(range(len(groups)), key=lambda i: len(groups[i]))
    files = groups[widest]
    total, half, cut = 0, sum(f.bytes for f in files) / 2, 1
    for index, file in enumerate(files[:-1]):
        total += file.bytes
        cut = index + 1
        if total >= half:
            break
    return [*groups[:widest], files[:cut], files[cut:], *groups[widest + 1 :]]
