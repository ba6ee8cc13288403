"""Each guard and each repair, taken out; and a schedule that fails without it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from firnline_committer.commit import found_commits, post_commit_check
from firnline_committer.commit.found_commits import FoundCommit
from firnline_committer.examine import delete_files, delete_repair, examination
from firnline_committer.examine.conversions import _KnownFile
from firnline_committer.examine.delete_files import DeleteFiles
from firnline_committer.examine.delete_repair import Repairs
from firnline_committer.examine.outputs import Outputs
from firnline_deletes.deletes import row_map
from firnline_deletes.deletes.row_map import Moves
from firnline_domain.base.values import replace
from firnline_domain.commits import commit_plan, conflicts
from firnline_domain.commits.commit_plan import AddedDelete
from firnline_domain.records.results import DeleteKind
from firnline_iceberg.commit.java_commits import HeadPin
from firnline_iceberg.commit.pinned_head import PinnedHead


@dataclass(frozen=True)
class Mutation:
    """`changes`: (object, attribute, what it becomes). `schedule` holds with the guard alone."""

    name: str
    schedule: str
    changes: tuple[tuple[Any, str, Any], ...]

    @contextmanager
    def made(self) -> Iterator[None]:
        before = [(owner, name, getattr(owner, name)) for owner, name, _ in self.changes]
        for owner, name, value in self.changes:
            setattr(owner, name, value)
        try:
            yield
        finally:
            for owner, name, value in before:
                setattr(owner, name, value)


def without(check: Any) -> tuple[Any, str, Any]:
    left = tuple(one for one in conflicts.CHECKS if one is not check)
    return conflicts, "CHECKS", left


def all_or_nothing(result: Any, head: Any) -> Any:
    verdict = _judge(result, head)
    if verdict.lost:
        first = next(iter(verdict.lost.values()))
        verdict.lost.update(dict.fromkeys(range(len(result.groups)), first))
    return verdict


def one_number(results: Any, repair: Any, converts: bool) -> Any:
    made = _by_sequence_number(results, repair, converts)
    parts = tuple(part for rewrite in made for part in rewrite.parts)
    return () if converts else (replace(made[0], parts=parts),)


def everything(_: Any, head: Any) -> Any:
    return tuple(one for one in head.deletes if one.kind is not _VECTOR)


def off_by_one(self: Moves, path: str, positions: Any) -> Iterator[tuple[int, Any]]:
    for owner, places in _moved(self, path, positions):
        yield owner, places + 1


def from_the_start(_: PinnedHead, __: Any, starts: dict[str, int]) -> int:
    return next(iter(starts.values()))


def newly_numbered(text: str, _: int | None = None) -> AddedDelete:
    return AddedDelete(text, None)


def whatever_it_applied_to(result: Any, head: Any) -> Iterator[Any]:
    for delete in result.applied_deletes:
        if (delete.path, delete.sequence_number) not in head.live_deletes:
            yield delete


def nothing(*_: Any) -> None:
    return None


_judge, _by_sequence_number, _moved = (
    conflicts.judge_result,
    commit_plan._by_sequence_number,
    Moves.move_positions,
)
_VECTOR = DeleteKind.DELETION_VECTOR
NO_POST_COMMIT_CHECK = (post_commit_check, "needed_but_removed", nothing)

CHECKS = [
    Mutation(
        "proof: rows", "v2: start!loses deliver.A", ((conflicts, "_find_imbalance", nothing),)
    ),
    Mutation(
        "proof: data sequence number",
        "v2p: eq.global append.b start.b!low deliver.A",
        (without(conflicts.check_proof),),
    ),
    Mutation(
        "inputs_live",
        "v2: append start.2 rollback expire deliver.A",
        (without(conflicts.inputs_live),),
    ),
    Mutation(
        "applied_live",
        "v2: eq start rollback expire deliver.A",
        (without(conflicts.applied_live),),
    ),
    Mutation(
        "applied_live: of a conversion",
        "v3: eq start.c rollback expire deliver.A",
        (without(conflicts.applied_live),),
    ),
    Mutation(
        "a conversion takes in what the head says by position",
        "v3: start.c dv deliver.A",
        ((_KnownFile, "dead_rows", row_map.NONE),),
    ),
    Mutation(
        "nothing_missed",
        "v2: branch append start.2 adopt expire deliver.A",
        (without(conflicts.nothing_missed),),
    ),
    Mutation(
        "nothing_missed: a wrong worker",
        "v2: start!skips deliver.A",
        (without(conflicts.nothing_missed),),
    ),
    Mutation(
        "partition_kept", "v2p: start!place eq deliver.A", (without(conflicts.partition_kept),)
    ),
    Mutation(
        "started_before",
        "v2: append start.2 rollback deliver.A",
        (without(conflicts.started_before),),
    ),
    Mutation(
        "position_deletes_live",
        "v2: start rollback expire deliver.A",
        (without(conflicts.position_deletes_live),),
    ),
    Mutation(
        "no_position_delete_missed, v2",
        "v2: start pos expire deliver.A",
        (without(conflicts.no_position_delete_missed),),
    ),
    Mutation(
        "no_position_delete_missed, v3",
        "v3: start dv.young expire deliver.A",
        (without(conflicts.no_position_delete_missed),),
    ),
    Mutation(
        "applied deletes: of this group's inputs",
        "v2: start.2 remove deliver.A",
        ((conflicts, "_applied_gone", whatever_it_applied_to),),
    ),
    Mutation(
        "group by group",
        "v2: start.2 remove deliver.A",
        ((examination, "judge_result", all_or_nothing),),
    ),
]

PLANS = [
    Mutation(
        "hazard 10312, both guards",
        "v2: start eq append deliver.A",
        ((commit_plan, "lost_deletes", lambda *_: ()), NO_POST_COMMIT_CHECK),
    ),
    Mutation(
        "lost_deletes: then nothing is cut in two",
        "v2: start.2 eq append deliver.A",
        ((commit_plan, "lost_deletes", lambda *_: ()),),
    ),
    Mutation(
        "what Iceberg drops by itself",
        "v2: start.2 eq append deliver.A",
        ((commit_plan, "_without_dropped", lambda made, _: made),),
    ),
    Mutation(
        "the pin",
        "v2: start eq deliver.A~append",
        ((HeadPin, "validate", lambda *_: True), (HeadPin, "is_head", lambda *_: True)),
    ),
    Mutation(
        "one rewrite per data sequence number",
        "v2p: start.b upsert start deliver.AB",
        ((commit_plan, "_by_sequence_number", one_number),),
    ),
    Mutation(
        "spent deletes: global ones look at all specs",
        "v2p: start eq.global deliver.A",
        ((commit_plan, "spent_deletes", everything),),
    ),
    Mutation(
        "spent deletes: above the data sequence number",
        "v2: start eq deliver.A",
        ((commit_plan, "spent_deletes", everything),),
    ),
]

REPAIRS = [
    Mutation(
        "any repair",
        "v2: start pos deliver.A",
        ((Repairs, "make", lambda self, at, result, touched: next(iter(touched.values()))),),
    ),
    Mutation(
        "came_back, v2",
        "v2: start rollback expire deliver.A",
        ((delete_repair._Case, "came_back", nothing),),
    ),
    Mutation(
        "came_back, v3",
        "v3: start rollback expire deliver.A",
        ((delete_repair._Case, "came_back", nothing),),
    ),
    Mutation("moved", "v2: start pos deliver.A", ((Moves, "move_positions", off_by_one),)),
    Mutation("moved, v3", "v3: start dv deliver.A", ((Moves, "move_positions", off_by_one),)),
    Mutation(
        "delta less masked",
        "v3: start dv deliver.A",
        ((Moves, "living_positions", lambda self, path, positions: positions),),
    ),
    Mutation(
        "trimmed",
        "v2: start append pos.pair deliver.A",
        ((DeleteFiles, "take_out", lambda *_: True),),
    ),
    Mutation(
        "trimmed under its own number",
        "v2: start append pos.pair deliver.A",
        ((delete_files, "AddedDelete", newly_numbered),),
    ),
    Mutation(
        "the old file goes with it (H5)",
        "v2: start deliver.A start append pos.pair deliver.B",
        ((DeleteFiles, "take_out", lambda *_: False),),
    ),
    Mutation(
        "validated from the head (H4)",
        "v2: start pos deliver.A",
        ((PinnedHead, "_validated_from", from_the_start),),
    ),
    Mutation("a repair's list goes", "v2: start pos deliver.A", ((Repairs, "close", nothing),)),
]

SETTLEMENT = [
    Mutation(
        "by task id",
        "v2: eq.all start deliver.A deliver.A",
        ((found_commits, "_find_by_task_id", lambda *_: FoundCommit(())),),
    ),
    Mutation(
        "by outputs",
        "v2: start deliver.A append expire deliver.A",
        ((found_commits, "_find_by_outputs", lambda *_: {}),),
    ),
    Mutation("row map and list go", "v2: start deliver.A", ((Outputs, "clear", nothing),)),
]

MUTATIONS = CHECKS + PLANS + REPAIRS + SETTLEMENT
