"""What must hold when everything has come to rest. Each is a function of what was found, and gives
findings in words; none means that it holds."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from firnline_domain.identity import Scope
from firnline_domain.records.events import RewriteCommitted
from firnline_domain.records.parts.tallies import FileTally
from firnline_domain.records.results import RewriteFinished, TaskFailed
from firnline_domain.records.states import TableState

from firnline_chaos.catalog_proxy import Sent
from firnline_chaos.topics import UNTIMELY, Ledger, said_at_ms
from tests.kit.lake.rows import Lineage, Node

SHOWN = 3  # examples of a finding
# Reasons that no ordinary record has.
PASSED_ON = frozenset({"no_such_bucket", "unknown_action", "unknown_catalog"})
MAX_OVERTAKEN, MEDIAN_OVERTAKEN = 10, 2  # commits of the busy table
Seen = Counter[tuple[object, ...]]


@dataclass(frozen=True)
class FileFacts:
    """Files of a table. `live`: of a ref's head, by ref, one entry per live manifest entry (path
    and, of a vector, its offset); `missing`: of all retained snapshots, those that the disk does
    not have; `unlisted`: files on disk that Firnline wrote, that no snapshot and no write-ahead
    list names, and that no commit ever took; `overdue`: lists past their age."""

    live: Mapping[str, Sequence[tuple[str, int | None]]] = field(default_factory=dict)
    missing: Collection[str] = ()
    unlisted: Collection[str] = ()
    overdue: Collection[str] = ()


def rows(table: str, ref: str, meant: Seen, read: Seen) -> list[str]:
    """Spark's rows equal the model's."""
    lost, extra = meant - read, read - meant
    found = []
    if lost:
        found.append(f"{table}@{ref}: {lost.total()} rows lost, as {list(lost)[:SHOWN]}")
    if extra:
        found.append(f"{table}@{ref}: {extra.total()} rows too many, as {list(extra)[:SHOWN]}")
    return found


def acknowledged(
    table: str, lineage: Lineage, markers: Iterable[str], head: int | None = None
) -> list[str]:
    """A commit that a writer was told had succeeded is in the table's history. `head`: behind it,
    where no writer takes a commit back."""
    nodes = lineage.nodes
    history = nodes if head is None else lineage.ancestors(head)
    seen = {nodes[number].marker for number in history}
    lost = [one for one in markers if lineage.meant(one) and one not in seen]
    return [f"{table}: acknowledged commits are gone: {lost[:SHOWN]}"] if lost else []


def whole_history(table: str, lineage: Lineage) -> list[str]:
    """Every snapshot is of a writer or a task, and stands on one that was seen."""
    return [
        f"{table}: snapshot {node.snapshot_id} is of nobody that we know"
        for node in lineage.nodes.values()
        if node.marker is None and not node.tasks
    ]


def files(table: str, facts: FileFacts) -> list[str]:
    """Every live file is referenced once and exists; what Firnline wrote and no commit took is on a
    list, and no list outlives its age."""
    found = []
    for ref, entries in facts.live.items():
        twice = [one for one, times in Counter(entries).items() if times > 1]
        if twice:
            found.append(f"{table}@{ref}: live more than once: {twice[:SHOWN]}")
    for words, paths in (
        ("files of retained snapshots are gone", facts.missing),
        ("files of Firnline's that nobody knows", facts.unlisted),
        ("lists that were not swept", facts.overdue),
    ):
        if paths:
            found.append(f"{table}: {len(paths)} {words}: {sorted(paths)[:SHOWN]}")
    return found


def unsettled(table: str, head: int | None, state: TableState | None) -> list[str]:
    """Why there is no rest at a table yet: the planner is somewhere else, or misses something."""
    at = None if state is None else state.head_snapshot_id
    if state is None or at != head:
        return [f"{table}: planner at {at}, table at {head}"]
    return [f"{table}: waits for a resync"] if state.waiting_for_resync else []


def counters(
    table: str, head: int | None, state: TableState | None, recount: Mapping[Scope, FileTally]
) -> list[str]:
    """The planner's counters equal a recount from the metadata."""
    if state is None:
        return [f"{table}: the planner has said nothing of it"]
    if state.head_snapshot_id != head:
        return [f"{table}: the planner is at {state.head_snapshot_id}, the table at {head}"]
    said = {one.scope: one.holds for one in state.partitions if one.holds != FileTally()}
    wrong = [scope for scope in {*said, *recount} if said.get(scope) != recount.get(scope)]
    return [
        f"{table}: counters of {scope} are {said.get(scope)}, recounted {recount.get(scope)}"
        for scope in wrong
    ]


def ends(ledger: Ledger) -> list[str]:
    """Every attempt of every task comes to an end; an expiry may be under way, and one whose
    record was refused by its date is told of by that letter."""
    found, late = [], set(ledger.open)
    for task in ledger.orders.keys() - ledger.untimely:
        orders = ledger.orders[task]
        *earlier, last = ledger.turns(task)
        for attempt in (*earlier, *([last] if task in late else [])):
            if not attempt.ends:
                name = f"{orders[0].table.dotted_name}: task {task} attempt {attempt.order.attempt}"
                found.append(f"{name} came to no end")
    return found


def able(ledger: Ledger, in_storm: Collection[tuple[str, int]]) -> list[str]:
    """No task that was ordered in calm fails by an error of the worker's own: a worker that serves
    no more has to end, and be started again. `in_storm`: `Ledger.attempts` of before; a clock that
    has jumped dates orders of the storm into the calm."""
    failed = {
        task: end.message
        for task, ends in ledger.ends.items()
        for end in ends
        if isinstance(end, TaskFailed) and end.reason in ("worker_error", "java_failed")
        if (task, end.attempt) in ledger.attempts - in_storm
    }
    return [f"task {task} failed in calm: {why[:200]}" for task, why in failed.items()]


def pace(ledger: Ledger, busy: str) -> list[str]:
    """No result of another table waits behind the busy one: from its end of work to its own commit
    the busy table has few commits. Seconds say less: a broker that was killed, or a host with a
    load of 20, makes every table wait."""
    busy_ms = sorted(
        said_at_ms(one)
        for ends in ledger.ends.values()
        for one in ends[:1]  # of each task the first: the others are redelivered
        if isinstance(one, RewriteCommitted) and one.table.name == busy
    )
    overtaken = sorted(
        bisect_left(busy_ms, said_at_ms(ends[0])) - bisect_left(busy_ms, results[0].finished_at_ms)
        for task, results in ledger.results.items()
        if isinstance(results[0], RewriteFinished) and results[0].table.name != busy
        if (ends := ledger.ends.get(task))
    )
    if not overtaken:
        return []
    half, most = overtaken[len(overtaken) // 2], overtaken[-1]
    if most <= MAX_OVERTAKEN and half <= MEDIAN_OVERTAKEN:
        return []
    return [f"results of other tables waited for {most} commits of {busy}, half of them for {half}"]


def one_commit(table: str, lineage: Lineage, sent: Iterable[Sent], specs: int = 1) -> list[str]:
    """No task is committed a second time on top of the first. A rollback takes a commit back, and
    the same order may then come again. A rewrite of manifests, which moves no file, is a commit for
    each of the table's `specs`."""
    request = {number: one.number for one in sent for number in one.snapshots}
    nodes, found = lineage.nodes, []
    for node in nodes.values():
        before: dict[str, list[Node]] = defaultdict(list)
        for earlier in lineage.ancestors(node.parent):
            if request.get(earlier) != request.get(node.snapshot_id):
                for task in set(node.tasks) & set(nodes[earlier].tasks):
                    before[task].append(nodes[earlier])
        for task, others in before.items():
            moving = any(one.moves_files for one in (node, *others))
            if moving or len(others) >= specs:
                ids = [one.snapshot_id for one in (*others, node)]
                found.append(f"{table}: task {task} was committed as {ids}")
    return found


def letters(
    ledger: Ledger,
    hostile: Collection[tuple[str, int, int]] = (),
    hostile_uuids: Collection[str] = (),
    clocks_far: bool = False,
) -> list[str]:
    """No record is given up but those at these places, by topic, partition and offset, those of
    hostile tables, and what services pass on of them: results of an action that no service has,
    requests for tables of a catalog that nobody has, moves to a bucket that is not there.
    `clocks_far`: and what was signed by a clock that was days off, or read by one."""
    return [
        f"dead letter of {one.service}: {one.reason} {one.message[:120]} "
        f"({one.topic}/{one.partition}@{one.offset})"
        for one in ledger.letters
        if (one.topic, one.partition, one.offset) not in hostile
        if not (hostile and one.reason in PASSED_ON)
        if not (clocks_far and one.reason in UNTIMELY)
        if not any(uuid.encode() in (one.key or b"") for uuid in hostile_uuids)
    ]
