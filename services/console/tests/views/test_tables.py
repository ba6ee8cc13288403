"""A table's row is made of the newest of each fact, in whatever order they come."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import pytest
from firnline_console.read_model.fold import Key, fold_facts, touched_keys
from firnline_console.views import tables
from firnline_console.views.tables import TableStates, TableView, totals_of, writer_of
from firnline_domain.base.values import replace
from firnline_domain.identity import TableName
from firnline_domain.records.events import TableChange
from firnline_domain.records.parts.summaries import TASK_ID, sign_summary
from firnline_domain.records.signing import Keyring, SigningKey

Make = Callable[..., Any]
COMMIT, DROP = "table_committed/upsert", "table_committed/dropped"
STATE, CHANGE = "table_state/in_flight", "files_changed/upsert"


def documents(facts: Any) -> tuple[TableView, TableStates]:
    docs = fold_facts({}, facts).docs
    uuid = facts[0].table.uuid
    view, states = docs[Key("table", uuid)], docs.get(Key("state", uuid))
    assert isinstance(view, TableView)
    assert states is None or isinstance(states, TableStates)
    return view, states or TableStates()


def test_every_order_of_arrival_gives_the_same_table(make: Make) -> None:
    state = make(STATE, updated_at_ms=30)
    facts = [
        make(COMMIT, committed_at_ms=10),
        make(CHANGE, observed_at_ms=20),
        state,
        replace(state, updated_at_ms=40, ordinal=58, snapshot_count=18),
        make(COMMIT, event_id="later", committed_at_ms=50, user_agent="Spark", principal="me"),
    ]
    found = [documents(order) for order in itertools.permutations(facts)]
    assert all(one == found[0] for one in found)
    view, states = found[0]
    assert view.summary is not None
    assert view.last_commit is not None
    assert (view.summary.snapshot_count, view.last_commit.writer) == (18, "flink")
    assert view.last_commit.principal == "me"
    assert states.refs["main"].ordinal == 58


def test_told_twice_is_told_once(make: Make) -> None:
    facts = [make(COMMIT), make(CHANGE), make(STATE)]
    assert documents(facts * 2) == documents(facts)


def test_debt_is_what_the_planner_could_mend(make: Make) -> None:
    """Three files are small or of deletes; a lone small one has nothing to be merged with."""
    assert totals_of(documents([make(STATE)])[0])["debt_files"] == 2


def test_another_branch_does_not_stand_for_the_table(make: Make) -> None:
    branch = make(STATE, ref="audit", updated_at_ms=2**42, snapshot_count=99)
    view, states = documents([make(STATE), branch])
    assert view.summary is not None
    assert view.summary.snapshot_count == 17
    assert set(states.refs) == {"main", "audit"}


def test_a_planner_that_lost_its_store_is_believed(make: Make) -> None:
    begun_again = make(STATE, updated_at_ms=2**42, epoch=0, ordinal=1, snapshot_count=3)
    summary = documents([make(STATE), begun_again])[0].summary
    assert summary is not None
    assert summary.snapshot_count == 3


def test_a_drop_outlives_a_state_that_comes_late(make: Make) -> None:
    drop = make(DROP, table=make(STATE).table, committed_at_ms=50)
    late = make(STATE, updated_at_ms=60)
    assert documents([drop, late])[0].is_dropped
    assert totals_of(documents([late, drop])[0]) == {"tables_dropped": 1}


def test_a_table_registered_again_is_back(make: Make) -> None:
    table = make(COMMIT).table
    drop = make(DROP, table=table, committed_at_ms=50)
    again = make(COMMIT, snapshots=(), change=TableChange.REGISTERED, committed_at_ms=60)
    assert not documents([again, drop])[0].is_dropped


def test_the_gateways_name_beats_one_seen_in_passing(make: Make) -> None:
    renamed = TableName(make(STATE).table.uuid, ("shop",), "sales")
    old = make(STATE).table.path
    what = {"table": renamed, "change": TableChange.RENAMED, "renamed_from": old}
    rename = make(COMMIT, **what, committed_at_ms=50)
    old_name = make(STATE, updated_at_ms=2**42)
    for facts in ([rename, old_name], [old_name, rename]):
        assert documents(facts)[0].dotted_name == "shop.sales"


def test_another_table_of_the_uuid_changes_nothing_of_a_row(make: Make) -> None:
    """Whatever it does; its rename is none of this one, either."""
    other = TableName(make(COMMIT).table.uuid, ("dev",), "copy")
    facts = [make(COMMIT, committed_at_ms=50), make(STATE, updated_at_ms=60)]
    before, _ = documents(facts)
    foreign = [
        make(COMMIT, table=other, committed_at_ms=70),
        make(COMMIT, table=other, change=TableChange.REGISTERED, committed_at_ms=70),
        make(COMMIT, table=other, renamed_from=("dev", "x"), committed_at_ms=70),
        make(CHANGE, table=other, observed_at_ms=80),
        make(DROP, table=other, committed_at_ms=90),
    ]
    assert documents([*facts, *foreign])[0] == before
    gone = make(DROP, table=before.table, committed_at_ms=95)
    assert (
        documents([*facts, gone, make(COMMIT, table=other, committed_at_ms=99)])[0].table == other
    )


def test_what_a_fact_touches_is_what_it_changes(make: Make) -> None:
    """The store loads `touched_keys`; a fold that changes more would overwrite what it never
    read."""
    for path in (COMMIT, DROP, STATE, CHANGE, "rewrite_files/compact", "snapshots_expired/refused"):
        fact = make(path)
        assert set(fold_facts({}, [fact]).docs) == set(touched_keys(fact))


KEYS = Keyring([SigningKey("k", bytes(32))])


@pytest.fixture
def signing(monkeypatch: pytest.MonkeyPatch) -> None:
    """A fleet with keys: without, whoever names a task is believed."""
    monkeypatch.setattr(tables, "keys_here", lambda: KEYS)


def committed(make: Make, at_ms: int, writer: str, *, ours: bool = False, **changes: Any) -> Any:
    """A commit of an engine of that name, or of Firnline, which signs its own."""
    fact = make(COMMIT, event_id=f"e{at_ms}", committed_at_ms=at_ms, **changes)
    summary = {"engine-name": writer, "app-name": "nightly", "app-id": "local-17"}
    if ours:
        summary = sign_summary({TASK_ID: "t1"}, fact.table.uuid, KEYS, at_ms)
    [snapshot] = fact.snapshots
    return replace(fact, snapshots=(replace(snapshot, summary=summary),))


@pytest.mark.usefixtures("signing")
def test_our_own_commits_do_not_hide_who_wrote(make: Make) -> None:
    """In whatever order they come, and however many of ours come after it."""
    write = committed(make, 20, "spark", principal="ann")
    others = [
        committed(make, 10, "flink", principal="bob"),
        *(committed(make, at_ms, "", ours=True, principal="firnline") for at_ms in (15, 30, 40)),
    ]
    for order in itertools.permutations([write, *others]):
        view, _ = documents(order)
        assert view.last_write is not None
        assert view.last_commit is not None
        assert (view.last_write.writer, view.last_write.principal) == (
            "spark, nightly (local-17)",
            "ann",
        )
        assert (view.last_commit.writer, view.last_commit.at_ms) == ("Firnline", 40)


@pytest.mark.usefixtures("signing")
def test_a_writer_that_names_a_task_of_ours_is_a_writer(make: Make) -> None:
    """Anybody can copy a summary; only the signature says that it is ours."""
    [snapshot] = (fact := committed(make, 20, "spark")).snapshots
    forged = replace(snapshot, summary={**snapshot.summary, TASK_ID: "t1"})
    view, _ = documents([replace(fact, snapshots=(forged,))])
    assert view.last_write is not None
    assert view.last_write.writer == "spark, nightly (local-17)"


@pytest.mark.usefixtures("signing")
def test_one_call_of_a_writer_and_ours_keeps_both(make: Make) -> None:
    theirs, ours = committed(make, 20, "spark"), committed(make, 20, "", ours=True)
    view, _ = documents([replace(theirs, snapshots=theirs.snapshots + ours.snapshots)])
    assert view.last_write is not None
    assert view.last_commit is not None
    assert (view.last_write.writer, view.last_commit.writer) == (
        "spark, nightly (local-17)",
        "Firnline",
    )


@pytest.mark.usefixtures("signing")
def test_a_table_that_only_we_committed_to_has_no_writer(make: Make) -> None:
    assert documents([committed(make, 20, "", ours=True)])[0].last_write is None


SPARK = {"engine-name": "spark", "engine-version": "4.1.4", "app-id": "local-17"}
HTTP = "Apache-HttpClient/5.6.4 (Java/17.0.15)"


@pytest.mark.parametrize(
    ("summary", "writer"),
    [
        (SPARK, "spark 4.1.4, local-17"),
        ({**SPARK, "app-name": "nightly"}, "spark 4.1.4, nightly (local-17)"),
        ({"flink.job-id": "ab12"}, "ab12"),
        ({"engine-name": "trino", "trino_query_id": "q7"}, "trino, q7"),
        ({**SPARK, "firnline.task-id": "t"}, "Firnline"),
        ({"added-records": "1"}, HTTP),
    ],
)
def test_the_writer_is_who_the_summary_says(summary: dict[str, str], writer: str) -> None:
    assert writer_of(summary, HTTP) == writer
