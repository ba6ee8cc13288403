"""Tags what `main` was at the end of a period: a change of metadata that asks for the name to be
free, so that no tag moves and none is made twice."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from firnline_domain.base.values import Value, moment_near
from firnline_domain.clocks import CLOCKS_DIFFER
from firnline_domain.errors import TaskRefused
from firnline_domain.identity import MAIN
from firnline_domain.policy.table_action.create_tags import TAG_EXISTS, TagCreation
from firnline_domain.records.orders import TableOrder
from firnline_domain.records.results import TableResult, table_result
from firnline_domain.settings.ref_rules import (
    NamedRef,
    Period,
    expired_refs,
    parse_ref_rules,
    parse_tag_rules,
    periods_ended,
)
from firnline_domain.settings.rule_lists import find_problem
from firnline_domain.settings.thresholds import Thresholds, resolve_thresholds
from firnline_iceberg.commit.retries import CommitLost, commit_with_retries
from firnline_iceberg.expiry.refs import tags_of
from firnline_iceberg.removal.catalog_and_storage_clocks import Ask, ask_clocks, table_now
from firnline_iceberg.table.catalog_client import Tables, settings_of
from firnline_iceberg.table.loaded_table import LoadedTable
from pyiceberg.table.refs import SnapshotRefType
from pyiceberg.table.update import SetSnapshotRefUpdate

from firnline_worker.table_actions.registry import ActionTools, CarryOut, carries_out


class WantedTag(Value):
    """A tag to create. `snapshot_id` None: the table's state of that time has expired, or it did
    not exist yet. `taken_by`: the snapshot of a tag or branch that has the name."""

    name: str
    snapshot_id: int | None
    taken_by: int | None = None

    @property
    def is_missing(self) -> bool:
        """Return True if the tag can be created: its snapshot is retained, and no ref has its
        name."""
        return self.snapshot_id is not None and self.taken_by is None

    @property
    def is_another(self) -> bool:
        """Return whether another tag or branch has its name."""
        return self.taken_by is not None and self.snapshot_id not in (None, self.taken_by)


def wanted_tags(table: LoadedTable, limits: Thresholds, now_ms: int) -> list[WantedTag]:
    """Return tags of the newest periods that are over and had a commit, if the setting can be read.
    None that the owner's rules would remove at once."""
    ended = periods_ended(limits.create_tags, now_ms)
    heads = [_head_before(table, one.end_ms) for one in ended]
    found = (
        WantedTag(one.tag, None)
        if head is None
        else _wanted_tag(table, periods_ended(limits.create_tags, now_ms, head.at_ms)[place], head)
        for place, (one, head) in enumerate(zip(ended, heads, strict=True))
    )
    return [one for one in found if not _is_too_old(table, one, limits, now_ms)]


class _Head(Value):
    snapshot_id: int
    at_ms: int  # since when


def _head_before(table: LoadedTable, end_ms: int) -> _Head | None:
    """Return the head of `main` before a time, by the table's own log as readers' time travel does,
    with its rollbacks; None if it is unknown or expired."""
    log = [(one.snapshot_id, one.timestamp_ms) for one in table.metadata.snapshot_log]
    if not log and (head := table.head_id(MAIN)) is not None:  # some catalogs keep none
        log = [(head, table.snapshot(head).timestamp_ms)]
    heads = [_Head(number, moment_near(at_ms)) for number, at_ms in log]
    before = [one for one in heads if one.at_ms < end_ms]
    return before[-1] if before and table.retains(before[-1].snapshot_id) else None


def _wanted_tag(table: LoadedTable, period: Period, head: _Head) -> WantedTag:
    ref = table.metadata.refs.get(period.tag)
    taken_by = None if ref is None else ref.snapshot_id
    if ref is not None and ref.snapshot_ref_type is SnapshotRefType.BRANCH:
        taken_by = -1  # it may stand at that very snapshot, and will move on
    return WantedTag(period.tag, head.snapshot_id, taken_by)


def _is_too_old(table: LoadedTable, tag: WantedTag, limits: Thresholds, now_ms: int) -> bool:
    """Return whether the owner's rules would remove the tag again as soon as it is created."""
    if (
        not tag.is_missing
        or tag.snapshot_id is None
        or find_problem(parse_ref_rules, limits.expire_tags)
    ):
        return False
    new = NamedRef(tag.name, table.snapshot(tag.snapshot_id).timestamp_ms)
    return tag.name in expired_refs((*tags_of(table), new), limits.expire_tags, now_ms)


@dataclass(frozen=True)
class TagCreator:
    """Carries out orders for tags, by the current settings of table and namespace. If an order
    comes late, or twice, only the periods that ended last get a tag."""

    tables: Tables
    worker: str
    now_ms: Callable[[], int]
    ask: Ask = ask_clocks

    def create(self, order: TableOrder) -> TableResult:
        """Carry out an order. Raises TaskRefused, RetryLater."""
        made = 0

        def create_missing() -> TableResult | CommitLost:
            nonlocal made
            wanted = self._find_wanted(self.tables.load(order.table), order)
            missing = [one for one in wanted if one.is_missing]
            made += (created := sum(self._create_tag(order, one) for one in missing))
            if created < len(missing):
                return CommitLost()
            if others := [one for one in wanted if one.is_another]:
                raise TaskRefused(TAG_EXISTS, _taken_text(others))
            return table_result(order, self.worker, self.now_ms(), {"tags_created": float(made)})

        return commit_with_retries(create_missing)

    def _find_wanted(self, table: LoadedTable, order: TableOrder) -> list[WantedTag]:
        settings = settings_of(self.tables, table, order.policies)
        limits = resolve_thresholds(settings)
        now_ms = table_now(table, self.now_ms, order.ordered_at_ms, self.ask)
        if refused := refusal(limits, order.ordered_at_ms, now_ms):
            raise TaskRefused(*refused, retryable=refused[0] == CLOCKS_DIFFER)
        return wanted_tags(table, limits, now_ms)

    def _create_tag(self, order: TableOrder, tag: WantedTag) -> bool:
        """Create a tag. Return False if the name is taken by now."""
        change = {"ref-name": tag.name, "type": "tag", "snapshot-id": tag.snapshot_id}
        update = SetSnapshotRefUpdate.model_validate({"action": "set-snapshot-ref", **change})
        return self.tables.commit_changes(order.table, (update,), {tag.name: None})


@carries_out(TagCreation.name)
def build_tag_creator(tools: ActionTools) -> CarryOut:
    return TagCreator(tools.tables, tools.worker, tools.now_ms).create


def refusal(limits: Thresholds, ordered_at_ms: int, now_ms: int) -> tuple[str, str] | None:
    """Return why no tag is created, by the current settings."""
    if not limits.enabled:
        return "disabled", "firnline.enabled=false"
    if not limits.create_tags:
        return "no_tags", "firnline.tags.create is not set: it names the tags"
    if wrong := find_problem(parse_tag_rules, limits.create_tags):
        return "unreadable_tags", f"firnline.tags.create: {wrong}"
    over = (one.end_ms for one in periods_ended(limits.create_tags, ordered_at_ms))
    if max(over) > now_ms:
        return CLOCKS_DIFFER, "by the earliest clock the period is not over"
    return None


def _taken_text(others: list[WantedTag]) -> str:
    return "; ".join(
        f"{one.name} is {f'at snapshot {one.taken_by}' if one.taken_by != -1 else 'a branch'}, "
        f"not at {one.snapshot_id}, and stays so"
        for one in others
    )
