"""`firnline explain` and `events` against the real API over the twin of its store."""

from __future__ import annotations

import inspect
import itertools
import json
import re
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from firnline_adapters.records.signing import keys_here
from firnline_cli.commands.look import events, tables, tasks
from firnline_cli.commands.look.explain import render_report
from firnline_cli.shared import console_client
from firnline_console.read_model.port import Built
from firnline_console.views import statuses
from firnline_console.views.event_text import event_of
from firnline_console.views.tasks import TaskStatus
from firnline_domain.base.values import replace
from firnline_domain.records.parts.summaries import sign_summary
from firnline_domain.records.pauses import TableHold
from firnline_domain.records.states import TableState
from firnline_domain.settings.in_force import settings_in_force, unreadable_values
from firnline_local.processes.ports import free_port
from firnline_local.stack.state import PartRecord, StackRecord, StateDir

from tests.examples import FOLDER, make
from tests.kit.console_site import NOW, Site, firnline, on_a_terminal, said

UUID = "6f1d9c1e-5d0a-4b7e-9a4e-0d3c1f2b3a49"


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No stack of the developer's is found."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("FIRNLINE_CONSOLE_URI", raising=False)


def test_explain_says_why_in_words(site: Site) -> None:
    site.tell(make("table_state/in_flight"), make("rewrite_files/compact"))
    site.tell(make("snapshots_expired/expired"))
    text = said(site, "explain", "shop.orders")
    assert "1 partition of 1 being rewritten now." in text
    assert "expiry: no snapshot is old enough" in text
    assert "metadata of" not in text
    assert "read by 2 scans an hour, assumed" in text
    assert "2026-11-21  running" in text
    assert "12 snapshots expired, 40 files deleted" in text
    assert "firnline.retain.hours  24" in text
    assert "firnline.enabled" not in text


def test_explain_says_who_wrote_also_after_a_rewrite(site: Site) -> None:
    commit = make("table_committed/upsert", principal="ann", committed_at_ms=NOW - 60_000)
    [theirs] = commit.snapshots
    spark = {"engine-name": "spark", "engine-version": "4.1.4", "app-name": "nightly"}
    signed = sign_summary({"firnline.task-id": "t1"}, UUID, keys_here(), NOW)
    ours = replace(theirs, summary=signed, sequence_number=99)
    site.tell(
        make("table_state/in_flight"),
        replace(commit, snapshots=(replace(theirs, summary=spark),)),
        replace(commit, event_id="ours", snapshots=(ours,), committed_at_ms=NOW - 5_000),
    )
    text = said(site, "explain", "shop.orders")
    assert "last written 60 s ago, by spark 4.1.4, nightly, principal ann\n" in text
    assert "last commit of Firnline 5 s ago" in text


def test_explain_says_how_large_the_metadata_is(site: Site) -> None:
    site.tell(make("table_state/in_flight", metadata_bytes=9_400_000))
    assert "; metadata of 9.4 MB" in said(site, "explain", "shop.orders")


@pytest.mark.parametrize(
    ("status", "words"), [("idle", "; decided again in 60 s"), ("parked", ", 60 s more")]
)
def test_explain_says_how_long_a_partition_waits(site: Site, status: str, words: str) -> None:
    state: TableState = make("table_state/in_flight")
    part = replace(state.partitions[0], status=status, until_ms=NOW + 60_000)
    site.tell(replace(state, partitions=(part,)))
    assert words in said(site, "explain", "shop.orders")
    later = replace(state, hold=TableHold("paused"), updated_at_ms=2**42, partitions=(part,))
    site.tell(later)
    assert words not in said(site, "explain", "shop.orders")


def test_explain_all_lists_the_defaults_too(site: Site) -> None:
    site.tell(make("table_state/in_flight"))
    assert "firnline.enabled" in said(site, "explain", "shop.orders", "--all")


def test_explain_says_once_how_a_window_is_written(site: Site) -> None:
    wrong = {"firnline.window": "at night"}
    [finding] = unreadable_values(wrong)
    setting = settings_in_force(wrong)["firnline.window"]
    hold = TableHold("unreadable_window", detail=setting.problem)
    state = make("table_state/in_flight", hold=hold, settings=wrong, in_force=(setting,))
    site.tell(state)
    assert said(site, "explain", "shop.orders").count("cannot be read: write") == 1
    advice = make("table_advice/tiny_partitions", rule="unreadable_settings", finding=finding)
    advised = replace(state, advised=(advice.rule,), updated_at_ms=state.updated_at_ms + 1)
    site.tell(advice, advised)
    text = said(site, "explain", "shop.orders")
    assert text.count("cannot be read: write") == 1
    assert "table property; see the recommendations" in text


def test_explain_by_uuid_and_as_json(site: Site) -> None:
    site.tell(make("table_state/in_flight"))
    answer = json.loads(said(site, "explain", UUID, "--json"))
    assert answer["partitions"][0]["reason"] == "equality_deletes"


def test_explain_lists_the_triggers_of_the_deepest_partition(site: Site) -> None:
    site.tell(make("table_state/in_flight"))
    text = said(site, "explain", "shop.orders")
    assert re.search(r"^equality deletes\s+now", text, re.MULTILINE)
    assert re.search(r"^read debt\s+waits: hot", text, re.MULTILINE)
    assert re.search(r"^closed\s+off\s*$", text, re.MULTILINE)


def test_explain_offers_names_that_come_close(site: Site) -> None:
    site.tell(make("table_state/in_flight"))
    result = firnline("explain", "shop.order", "--console", site.uri)
    assert result.exit_code == 1
    assert "no table 'shop.order' has been seen. Did you mean: shop.orders?" in result.output


def test_a_short_terminal_shows_the_deepest_and_counts_the_rest(site: Site) -> None:
    state: TableState = make("table_state/in_flight")
    many = tuple(
        replace(state.partitions[0], scope=replace(state.partitions[0].scope, partition=f"[{n}]"))
        for n in range(30)
    )
    site.tell(replace(state, partitions=many))
    answer = json.loads(said(site, "explain", UUID, "--json"))
    text = on_a_terminal(lambda terminal: terminal.print(render_report(answer, 40)))
    assert "... and 10 more: --all" in text


def test_events_are_the_last_ones(site: Site) -> None:
    site.tell(*(make("rewrite_files/compact", task_id=str(n), ordered_at_ms=n) for n in range(9)))
    lines = said(site, "events", "--last", "3").splitlines()
    assert len(lines) == 4  # with the header
    assert lines[-1].split("\t") == [
        "1970-01-01T00:00:00.008Z",
        "order",
        "shop.orders",
        "8",
        "compact 2026-11-21: equality deletes",
    ]


def test_events_of_one_table_as_json(site: Site) -> None:
    site.tell(make("rewrite_files/compact"))
    assert json.loads(said(site, "events", "--table", "shop.orders", "--json"))["kind"] == "order"


def test_events_of_a_table_that_nobody_knows_are_not_just_none(site: Site) -> None:
    site.tell(make("table_state/in_flight"))
    assert said(site, "events", "--table", "shop.orders").count("\n") == 1  # the header
    result = firnline("events", "--table", "shop.order", "--console", site.uri)
    assert result.exit_code == 1
    assert "Did you mean: shop.orders?" in result.output


def test_events_by_kind_and_time(site: Site) -> None:
    at_ms = 1_795_000_000_000
    site.tell(
        *(
            make("rewrite_files/compact", task_id=f"t{n}", ordered_at_ms=at_ms + n)
            for n in range(30)
        )
    )
    site.tell(make("rewrite_committed/native", committed_at_ms=at_ms + 60_000))
    stamp = datetime.fromtimestamp(at_ms // 1000 + 30, UTC).isoformat()

    def kinds(*words: str) -> list[str]:
        return [
            json.loads(line)["kind"]
            for line in firnline(
                "events", "--json", *words, "--console", site.uri
            ).stdout.splitlines()
        ]

    assert kinds("--since", stamp) == ["committed"]
    assert kinds("--until", stamp, "--since", "2026-01-01") == ["order"] * 30
    assert kinds("--kind", "committed") == ["committed"]
    assert firnline("events", "--since", "yesterday").exit_code == 2


def test_what_is_not_kept_is_not_nothing(site: Site) -> None:
    at_ms = 1_795_000_000_000
    empty = firnline("events", "--since", "2026-01-01", "--console", site.uri)
    assert (empty.exit_code, "keeps no event yet" in empty.stderr) == (0, True)
    site.tell(make("rewrite_files/compact", ordered_at_ms=at_ms))
    before = ("events", "--since", "2026-01-01", "--until", "2026-01-02", "--console", site.uri)
    result = firnline(*before)
    assert "events are kept since 2026-11-18T11:06:40.000Z: nothing is known" in result.stderr
    assert result.stdout.count("\n") == 1  # the header alone
    later = firnline("events", "--since", "2026-11-20", "--console", site.uri)
    assert later.stderr == ""
    assert (
        "kept since 2026-11-18T11:06:40.000Z"
        in firnline("tasks", "--status", "failed", "--console", site.uri).stderr
    )


def test_every_kind_of_event_can_be_asked_for() -> None:
    paths = (
        f"{folder.name}/{path.name.removesuffix('.json')}"
        for folder in FOLDER.iterdir()
        for path in folder.iterdir()
    )
    facts = (make(path) for path in paths)
    kinds = {event.kind for fact in facts if (event := event_of(fact)) is not None}
    assert "running" in kinds
    assert kinds <= {*events.KINDS}


@pytest.mark.parametrize(
    ("words", "known"),
    [
        (("tables", "--status", "nope"), "'stuck'"),
        (("tasks", "--status", "nope"), "'overdue'"),
        (("events", "--kind", "nope"), "'running'"),
        (("tables", "--sort", "nope"), "'debt'"),
    ],
)
def test_an_unknown_value_is_said_with_the_known_ones(
    site: Site, words: tuple[str, ...], known: str
) -> None:
    result = firnline(*words, "--console", site.uri)
    assert result.exit_code == 2
    assert known in result.output


def test_statuses_that_can_be_asked_for_are_those_that_the_console_has() -> None:
    said = {*statuses.CODES.values(), statuses.NOT_COUNTED.code}
    said |= {*re.findall(r'TableStatus\("(\w+)"', inspect.getsource(statuses.status_of))}
    assert said == {*tables.STATUSES}
    assert {*tasks.STATUSES} == {"running", "overdue", *TaskStatus} - {TaskStatus.ORDERED}


def test_a_task_or_table_that_is_not_there_is_an_error(site: Site) -> None:
    site.tell(make("table_state/in_flight"))
    for words in (("tasks", "zzz"), ("tasks", "--table", "shop.order")):
        result = firnline(*words, "--console", site.uri)
        assert (result.exit_code, result.stdout.count("shop.orders\t")) == (1, 0), words
    assert "Did you mean: shop.orders?" in result.output


def test_partitions_that_the_console_does_not_have_are_counted(site: Site) -> None:
    state: TableState = make("table_state/in_flight")
    many = tuple(
        replace(state.partitions[0], scope=replace(state.partitions[0].scope, partition=f"[{n}]"))
        for n in range(100)
    )
    site.tell(replace(state, partitions=many, partition_count=300))
    answer = json.loads(said(site, "explain", UUID, "--json"))
    text = on_a_terminal(lambda terminal: terminal.print(render_report(answer, 40)))
    assert "... and 280 more: --all" in text
    assert "... and 200 more: `firnline plan --table`" in said(site, "explain", UUID, "--all")


def test_a_deployed_fleets_status_is_its_consoles(site: Site) -> None:
    site.tell(make("table_state/in_flight"), make("pause_maintenance/fleet"))
    result = firnline("status", "--console", site.uri)
    assert result.exit_code == 0, result.output
    assert f"console\t{site.uri}\nstate\tanswers\ntables\t1\n" in result.stdout
    assert "PAUSED: MAINTENANCE OF ALL TABLES" in result.stderr
    found = json.loads(firnline("status", "--json", "--console", site.uri).stdout)
    assert (found["running"], len(found["pauses"])) == (True, 1)
    away = firnline("status", "--console", f"http://127.0.0.1:{free_port()}")
    assert (away.exit_code, "does not answer" in away.output) == (1, True)
    assert "--console" in firnline("status").output


@pytest.mark.parametrize("words", [("-h",), ("tables", "-h"), ("help",), ("help", "tables")])
def test_help_as_other_programs_have_it(words: tuple[str, ...]) -> None:
    result = firnline(*words)
    assert (result.exit_code, "Usage: " in result.output) == (0, True)


def test_version_as_other_programs_have_it() -> None:
    assert firnline("version").output == firnline("--version").output


def test_an_address_without_a_scheme_is_helped(site: Site) -> None:
    result = firnline("tables", "--console", f"127.0.0.1:{site.port}")
    assert result.exit_code == 2
    assert f"write http://127.0.0.1:{site.port}" in result.output


def test_following_goes_on_after_the_first_answer_without_repeating(site: Site) -> None:
    site.tell(make("rewrite_files/compact"))
    client = console_client.console_at(None, site.uri)
    tail = events.follow_events(client, client.get("/api/events"))
    site.tell(make("rewrite_files/compact"), make("rewrite_committed/native"))
    assert next(tail)["kind"] == "committed"


def test_a_rebuilt_view_is_not_told_again(site: Site) -> None:
    site.tell(make("rewrite_files/compact"))
    client = console_client.console_at(None, site.uri)
    tail = events.follow_events(client, client.get("/api/events"))
    site.model.begin_generation(Built("g", NOW), replace=True)
    site.tell(make("rewrite_files/compact"), make("rewrite_committed/native"))
    assert next(tail)["kind"] == "committed"


def test_following_waits_for_a_console_that_is_away(
    site: Site, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(events, "PAUSE_S", 0)
    client = console_client.console_at(None, site.uri)
    start, real = client.get("/api/events"), client.stream_events
    away = iter([console_client.Away("gone."), console_client.Away("gone.")])

    def stream(after: int | None) -> Iterator[dict[str, Any]]:
        if error := next(away, None):
            raise error
        return real(after)

    monkeypatch.setattr(client, "stream_events", stream)
    site.tell(make("rewrite_committed/native"))
    assert [
        event["kind"] for event in itertools.islice(events.follow_events(client, start), 1)
    ] == ["committed"]
    assert capsys.readouterr().err.count("Waiting for it.") == 1


@pytest.mark.parametrize("words", [("tables",), ("explain", "a.b"), ("events", "--follow")])
def test_without_a_stack_it_says_how_to_start_one(words: tuple[str, ...]) -> None:
    result = firnline(*words)
    assert result.exit_code == 1
    assert "firnline up" in result.output
    assert "FIRNLINE_CONSOLE_URI" in result.output


def test_a_console_that_is_away_is_named() -> None:
    result = firnline("tables", "--console", f"http://127.0.0.1:{free_port()}")
    assert result.exit_code == 1
    assert "does not answer" in result.output
    assert "firnline status" in result.output


def test_something_else_at_the_address_is_said(site: Site) -> None:
    result = firnline("tables", "--console", f"{site.uri}/elsewhere")
    assert result.exit_code == 1
    assert "is not a Firnline console" in result.output


@pytest.mark.parametrize("directory", [".firnline", ".firnline/demo"])
def test_a_running_stack_is_found(site: Site, tmp_path: Path, directory: str) -> None:
    site.tell(make("table_state/in_flight"))
    state = StateDir.from_path(tmp_path / directory)
    record = StackRecord(ports={"console": site.port}, parts={"console": PartRecord("ready")})
    with state.lock():
        state.write_record(record)
        found = firnline("tables")
        named = firnline("tables", "--state", str(state.root))
    assert "\nshop.orders\t" in found.output
    assert named.output == found.output
    assert firnline("tables").exit_code == 1  # it has stopped


def test_a_named_directory_beats_the_variable(
    site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FIRNLINE_CONSOLE_URI", site.uri)
    assert firnline("tables").exit_code == 0
    assert firnline("tables", "--state", str(tmp_path / "none")).exit_code == 1
