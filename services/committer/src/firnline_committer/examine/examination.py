"""Selects what of a batch may be committed onto one head, group by group, with repairs if they
help."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field

from firnline_domain.base.values import replace
from firnline_domain.commits.commit_plan import Conversion, Repair, Written
from firnline_domain.commits.conflicts import Conflict, Judgement, judge_result
from firnline_domain.identity import Scope
from firnline_domain.records.parts.conflict_reasons import ConflictReason
from firnline_domain.records.results import RewriteFinished
from firnline_domain.settings.thresholds import resolve_thresholds
from firnline_iceberg.commit.pinned_head import PinnedHead
from firnline_iceberg.removal.removal import shares_files
from firnline_iceberg.table.loaded_table import LoadedTable

from firnline_committer.examine.conversions import ConversionBuilder
from firnline_committer.examine.delete_repair import Repairs
from firnline_committer.examine.outputs import Outputs
from firnline_committer.examine.result_validation import first_flaw

Lost = dict[int, Conflict]
"""By number of the group in the result as it came."""


@dataclass
class Selection:
    """Results that may be committed. `fit`: results without their lost groups; `refused`: results
    of which no group is left. In neither: a second result of one scope that needs a repair, whose
    turn comes with the next head."""

    written: list[Written]
    fit: list[RewriteFinished] = field(default_factory=list)
    lost: dict[str, Lost] = field(default_factory=dict)  # by task id, of those that fit
    refused: dict[str, Conflict] = field(default_factory=dict)
    repairs: dict[str, Repair] = field(default_factory=dict)  # by task id
    conversions: dict[str, Conversion] = field(default_factory=dict)  # by task id

    def noted_lists(self, table: LoadedTable, planned: Collection[str]) -> tuple[str, ...]:
        """Return the write-ahead lists of the outputs in a commit of these tasks, if another table
        may use the same files: a note next to each is written before the commit is sent
        (docs/decisions/0016)."""
        fit = (one for one in self.fit if one.task_id in planned)
        own = [one.output_list for one in fit if one.sends_noted and one.output_list]
        if shares_files(table):
            written: tuple[Written, ...] = (*self.repairs.values(), *self.conversions.values())
            own += [one.files[-1] for one in written if one.task_id in planned]
        return tuple(own)


@dataclass(frozen=True)
class Examiner:
    """Reads the table and the storage, and writes repairs."""

    outputs: Outputs
    repairs: Repairs
    conversions: ConversionBuilder

    def examine(
        self, at: PinnedHead, results: Iterable[RewriteFinished], written: list[Written]
    ) -> Selection:
        """Select the results for one head. At most one result of a scope is repaired: two repairs
        could remove, and write anew, one and the same delete file. Their files are appended to
        `written`, also if it raises RetryLater or MetadataFileGone."""
        selected, repaired = Selection(written), set[Scope]()
        for result in results:
            verdict = self._judge(result, at)
            if verdict.touched and result.scope in repaired:
                continue
            self._select_groups(at, result, verdict, selected)
            if result.task_id in selected.repairs:
                repaired.add(result.scope)
        return selected

    def _judge(self, result: RewriteFinished, at: PinnedHead) -> Judgement:
        """Return the judgement of each group: invalid outputs lose all groups, and a missing output
        its own."""
        if wrong := first_flaw(at, result):
            found = Conflict(ConflictReason.INVALID_OUTPUTS, wrong[:1000])
            return Judgement({}, dict.fromkeys(range(len(result.groups)), found))
        verdict = judge_result(result, at.head)
        for number, group in enumerate(result.groups):
            gone = None if number in verdict.lost else self.outputs.first_missing(at.table, group)
            if gone is not None:
                found = Conflict(ConflictReason.OUTPUTS_GONE, gone)
                verdict.lost[number] = verdict.touched.pop(number, found)
        return verdict

    def _select_groups(
        self, at: PinnedHead, result: RewriteFinished, verdict: Judgement, into: Selection
    ) -> None:
        lost = dict(verdict.lost)
        lost |= self._convert(at, result, lost, into)
        lost |= self._repair(at, result, lost, verdict.touched, into)
        if len(lost) == len(result.groups):
            into.refused[result.task_id] = next(iter(lost.values()))
            return
        into.fit.append(without_groups(result, lost))
        if lost:
            into.lost[result.task_id] = lost

    def _convert(
        self, at: PinnedHead, result: RewriteFinished, lost: Lost, into: Selection
    ) -> Lost:
        """Convert groups. Return those that are lost by a failure."""
        numbers = [n for n, group in enumerate(result.groups) if group.converts and n not in lost]
        if not numbers:
            return {}
        if resolve_thresholds(at.table.properties).streaming_readers:
            text = "firnline.streaming-readers=true"
            return dict.fromkeys(numbers, Conflict(ConflictReason.STREAMING_READERS, text))
        found = self.conversions.make(at, result, numbers, into.written)
        if isinstance(found, Conflict):
            return dict.fromkeys(numbers, found)
        into.conversions[result.task_id] = found
        return {}

    def _repair(
        self, at: PinnedHead, result: RewriteFinished, lost: Lost, touched: Lost, into: Selection
    ) -> Lost:
        """Repair groups. Return those that are lost by a failure."""
        if not touched:
            return {}
        numbers = _renumber(result, lost, touched)
        found = self.repairs.make(at, without_groups(result, lost), numbers, into.written)
        if isinstance(found, Conflict):
            return dict.fromkeys(touched, found)
        into.repairs[result.task_id] = found
        return {}


def without_groups(result: RewriteFinished, lost: Iterable[int]) -> RewriteFinished:
    """Return the result without the lost groups."""
    gone = set(lost)
    kept = (group for number, group in enumerate(result.groups) if number not in gone)
    return replace(result, groups=tuple(kept))


def _renumber(result: RewriteFinished, lost: Lost, touched: Lost) -> Lost:
    """Return the touched groups by their numbers without the lost ones."""
    kept = (number for number in range(len(result.groups)) if number not in lost)
    return {new: touched[old] for new, old in enumerate(kept) if old in touched}
