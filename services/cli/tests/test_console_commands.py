"""`firnline tables`, `explain` and `events` against the real API over the twin of its store."""

from __future__ import annotations

import asyncio
import io
import itertools
import json
import threading
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click
import pytest
from aiohttp import web
from click.testing import CliRunner, Result
from firnline_cli import _console, events, tables
from firnline_cli.__main__ import main
from firnline_cli.explain import report
from firnline_cli.undo import known
from firnline_console.api import Api
from firnline_console.in_memory import MemoryReadModel
from firnline_console.readmodel import Built
from firnline_domain.identity import TableName
from firnline_domain.records.states import TableState
from firnline_domain.values import replace
from firnline_local.ports import free_port
from firnline_local.state import PartRecord, StackRecord, StateDir
from rich.console import Console

from tests.examples import make

NOW = 1_795_270_005_000
UUID = "6f1d9c1e-5d0a-4b7e-9a4e-0d3c1f2b3a49"


class Site:
    """A console on a port of its own, in a thread."""

    def __init__(self) -> None:
        self.model = MemoryReadModel()
        self.model.begin(Built("g", 1), replace=False)
        self.port = free_port()
        self.uri = f"http://127.0.0.1:{self.port}"
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever)

    def tell(self, *facts: Any) -> None:
        self.model.apply("g", facts)

    def start(self) -> None:
        self._thread.start()
        asyncio.run_coroutine_threadsafe(self._listen(), self._loop).result(30)

    async def _listen(self) -> None:
        api = Api(self.model, lambda: NOW, lambda: True)
        self._runner = web.AppRunner(api.application(), shutdown_timeout=0.1)
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", self.port).start()

    def stop(self) -> None:
        asyncio.run_coroutine_threadsafe(self._runner.cleanup(), self._loop).result(30)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


@pytest.fixture
def site() -> Iterator[Site]:
    site = Site()
    site.start()
    yield site
    site.stop()


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No stack of the developer's is found."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("FIRNLINE_CONSOLE_URI", raising=False)


def firnline(*words: str) -> Result:
    return CliRunner().invoke(main, words)


def said(site: Site, *words: str) -> str:
    result = firnline(*words, "--console", site.uri)
    assert result.exit_code == 0, result.output
    return result.output


def on_a_terminal(draw: Callable[[Console], None], width: int = 140) -> str:
    out = io.StringIO()
    draw(Console(file=out, force_terminal=True, width=width, height=40, color_system=None))
    return out.getvalue()


def test_tables_are_lines_with_tabs(site: Site) -> None:
    site.tell(make("table_state/in_flight"), make("table_committed/upsert"))
    head, line = said(site, "tables").splitlines()
    assert head.split("\t")[:3] == ["table", "rows", "size"]
    assert line.split("\t")[:8] == ["shop.orders", "500", "12345", "1", "1", "2", "2", "1 at work"]


def test_tables_as_json_are_the_consoles_answer(site: Site) -> None:
    site.tell(make("table_state/in_flight"))
    [row] = json.loads(said(site, "tables", "--json"))["tables"]
    assert (row["table"], row["head_snapshot_id"]) == ("shop.orders", "7402233445566778899")


def test_no_table_says_what_to_do(site: Site) -> None:
    assert "gateway" in said(site, "tables")


def test_a_table_not_counted_yet_has_no_figures(site: Site) -> None:
    site.tell(make("table_committed/upsert"))
    assert "\t\t\t\t\t\t\tnot counted yet\t" in said(site, "tables")


def test_a_terminal_gets_a_grid_and_names_do_not_drive_it() -> None:
    row = {
        "table": "shop.[red]\x1b[2Jorders",
        "counted": True,
        "status": {"code": "stuck", "text": "2 parked"},
        "debt_files": 3,
        "last_commit": {"at_ms": NOW - 3_000},
        "last_change_ms": None,
    }
    text = on_a_terminal(lambda terminal: tables.show([row], terminal, NOW))
    assert "shop.[red]?[2Jorders" in text
    assert "2 parked" in text
    assert "3 s" in text


def test_explain_says_why_in_words(site: Site) -> None:
    site.tell(make("table_state/in_flight"), make("rewrite_files/compact"))
    site.tell(make("snapshots_expired/expired"))
    text = said(site, "explain", "shop.orders")
    assert "1 partition of 1 being rewritten now." in text
    assert "expiry: no snapshot is old enough" in text
    assert "read by 2 scans an hour, assumed" in text
    assert "2026-11-21  at work" in text
    assert "12 snapshots expired, 40 files deleted" in text
    assert "firnline.retain.hours  24" in text
    assert "firnline.enabled" not in text


@pytest.mark.parametrize(
    ("status", "words"), [("idle", "; decided again in 60 s"), ("parked", ", 60 s more")]
)
def test_explain_says_how_long_a_partition_waits(site: Site, status: str, words: str) -> None:
    state: TableState = make("table_state/in_flight")
    part = replace(state.partitions[0], status=status, until_ms=NOW + 60_000)
    site.tell(replace(state, partitions=(part,)))
    assert words in said(site, "explain", "shop.orders")


def test_explain_all_lists_the_defaults_too(site: Site) -> None:
    site.tell(make("table_state/in_flight"))
    assert "firnline.enabled" in said(site, "explain", "shop.orders", "--all")


def test_explain_by_uuid_and_as_json(site: Site) -> None:
    site.tell(make("table_state/in_flight"))
    answer = json.loads(said(site, "explain", UUID, "--json"))
    assert answer["partitions"][0]["reason"] == "equality_deletes"


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
    text = on_a_terminal(lambda terminal: terminal.print(report(answer, 40)))
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
            json.loads(line)["kind"] for line in said(site, "events", "--json", *words).splitlines()
        ]

    assert kinds("--since", stamp) == ["committed"]
    assert kinds("--until", stamp, "--since", "2026-01-01") == ["order"] * 30
    assert kinds("--kind", "committed") == ["committed"]
    assert firnline("events", "--since", "yesterday").exit_code == 2


def test_tables_are_filtered_sorted_and_counted(site: Site) -> None:
    state: TableState = make("table_state/in_flight")
    for number in range(5):
        name = TableName(f"uuid-{number}", ("shop",), f"t{number}")
        site.tell(replace(state, table=name, debt_files=number))

    def names(*words: str) -> list[str]:
        result = firnline("tables", "--console", site.uri, *words)
        assert result.exit_code == 0, result.output
        return [line.split("\t")[0] for line in result.stdout.splitlines()[1:]]

    assert names() == [f"shop.t{n}" for n in (4, 3, 2, 1, 0)]
    assert names("--sort", "table", "--limit", "2") == ["shop.t0", "shop.t1"]
    assert names("--filter", "T3") == ["shop.t3"]
    assert names("--namespace", "ops") == []
    assert names("--status", "healthy") == []
    some = firnline("tables", "--limit", "2", "--console", site.uri)
    assert "2 of 5 that match, of 5 tables" in some.stderr
    everything = json.loads(said(site, "tables", "--json", "--filter", "t1"))
    assert (everything["matched"], everything["total"]) == (1, 5)


def test_a_name_is_not_folded_on_80_columns() -> None:
    row = {
        "table": "ops.an_audit_log_of_all_that_happened",
        "status": {"code": "waiting", "text": "waiting, 5 of 8"},
        "records": 123_456_789, "data_bytes": 9_876_543_210, "data_files": 12_345,
        "fragments": 1_234, "delete_files": 123, "debt_files": 99,
        "last_commit": {"at_ms": NOW - 3_000}, "last_change_ms": None,
    }  # fmt: skip
    text = on_a_terminal(lambda terminal: tables.show([row], terminal, NOW), width=80)
    [_, line] = text.splitlines()
    assert row["table"] in line
    assert "waiting, 5 of 8" in line
    assert " 99 " in line


def test_tasks_have_their_ids_and_snapshots(site: Site) -> None:
    order = make("rewrite_files/compact")
    site.tell(make("table_state/in_flight"), order)
    site.tell(make("rewrite_files/compact", task_id="f" * 32, ordered_at_ms=1))
    site.tell(make("rewrite_committed/native", task_id=order.task_id))
    head, running, ended = (line.split("\t") for line in said(site, "tasks").splitlines())
    assert dict(zip(head, running, strict=True))["task"] == "f" * 32
    found = dict(zip(head, ended, strict=True))
    assert (found["task"], found["status"], found["table"]) == (
        order.task_id, "committed", "shop.orders",
    )  # fmt: skip
    assert found["snapshots"] == str(make("rewrite_committed/native").snapshot_ids[0])
    assert order.task_id in said(site, "tasks", order.task_id[:8], "--table", "shop.orders")
    assert said(site, "tasks", "--status", "failed").count("\n") <= 2
    assert order.task_id[:12] in said(site, "explain", "shop.orders")


def test_an_address_without_a_scheme_is_helped(site: Site) -> None:
    result = firnline("tables", "--console", f"127.0.0.1:{site.port}")
    assert result.exit_code == 2
    assert f"write http://127.0.0.1:{site.port}" in result.output


def test_the_beginning_of_a_task_has_to_be_enough(site: Site) -> None:
    site.tell(
        make("rewrite_files/compact", task_id="abcdef1"),
        make("rewrite_files/compact", task_id="abcdef2"),
    )
    place = _console.console_at(None, site.uri)
    assert known(place, "abcdef1")[0] == "abcdef1"
    for task, text in (("", "6 characters"), ("abcdef", "several tasks"), ("123456", "no task")):
        with pytest.raises(click.ClickException, match=text):
            known(place, task)


def test_following_goes_on_after_the_first_answer_without_repeating(site: Site) -> None:
    site.tell(make("rewrite_files/compact"))
    client = _console.console_at(None, site.uri)
    tail = events.followed(client, client.get("/api/events"))
    site.tell(make("rewrite_files/compact"), make("rewrite_committed/native"))
    assert next(tail)["kind"] == "committed"


def test_a_rebuilt_view_is_not_told_again(site: Site) -> None:
    site.tell(make("rewrite_files/compact"))
    client = _console.console_at(None, site.uri)
    tail = events.followed(client, client.get("/api/events"))
    site.model.begin(Built("g", NOW), replace=True)
    site.tell(make("rewrite_files/compact"), make("rewrite_committed/native"))
    assert next(tail)["kind"] == "committed"


def test_following_waits_for_a_console_that_is_away(
    site: Site, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(events, "PAUSE_S", 0)
    client = _console.console_at(None, site.uri)
    start, real = client.get("/api/events"), client.stream
    away = iter([_console.Away("gone."), _console.Away("gone.")])

    def stream(after: int | None) -> Iterator[dict[str, Any]]:
        if error := next(away, None):
            raise error
        return real(after)

    monkeypatch.setattr(client, "stream", stream)
    site.tell(make("rewrite_committed/native"))
    assert [event["kind"] for event in itertools.islice(events.followed(client, start), 1)] == [
        "committed"
    ]
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
    state = StateDir.at(tmp_path / directory)
    record = StackRecord(ports={"console": site.port}, parts={"console": PartRecord("ready")})
    with state.lock():
        state.write(record)
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


def test_advise_says_what_was_found_and_what_to_do(site: Site) -> None:
    advice = make("table_advice/tiny_partitions")
    site.tell(advice, make("table_state/in_flight", advised=(advice.rule,)))
    for words in (("advise",), ("advise", "shop.orders")):
        text = said(site, *words)
        assert "shop.orders" in text
        assert f"tiny partitions: {advice.finding}  (for 3 h)" in text
        assert f"-> {advice.remedy}" in text
    explained = said(site, "explain", "shop.orders")
    assert f"tiny partitions: {advice.finding}" in explained
    assert "firnline advise shop.orders" in explained
    assert json.loads(said(site, "advise", "--json"))["advice"][0]["rule"] == advice.rule


def test_without_advice_it_says_so_and_a_wrong_name_is_helped(site: Site) -> None:
    site.tell(make("table_state/in_flight"))
    assert "Nothing to say about any table." in said(site, "advise")
    assert "Nothing to say about shop.orders." in said(site, "advise", "shop.orders")
    result = firnline("advise", "shop.order", "--console", site.uri)
    assert result.exit_code == 1
    assert "Did you mean: shop.orders?" in result.output
