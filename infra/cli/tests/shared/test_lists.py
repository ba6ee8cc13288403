"""`firnline tables` and `tasks` against the real API over the twin of its store."""

from __future__ import annotations

import json

import click
import pytest
from firnline_cli.commands.act.undo import find_task
from firnline_cli.commands.look import tables
from firnline_cli.shared import console_client
from firnline_domain.base.values import replace
from firnline_domain.identity import TableName
from firnline_domain.records.states import TableState

from tests.examples import make
from tests.kit.console_site import NOW, Site, firnline, on_a_terminal, said

UUID = "6f1d9c1e-5d0a-4b7e-9a4e-0d3c1f2b3a49"


def test_tables_are_lines_with_tabs(site: Site) -> None:
    site.tell(make("table_state/in_flight"), make("table_committed/upsert"))
    head, line = said(site, "tables").splitlines()
    assert head.split("\t")[:3] == ["table", "rows", "size"]
    assert line.split("\t")[:8] == ["shop.orders", "500", "12345", "1", "1", "2", "2", "1 running"]


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
    text = on_a_terminal(lambda terminal: tables.print_tables([row], terminal, NOW))
    assert "shop.[red]?[2Jorders" in text
    assert "2 parked" in text
    assert "3 s" in text


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
    text = on_a_terminal(lambda terminal: tables.print_tables([row], terminal, NOW), width=80)
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


def test_the_beginning_of_a_task_has_to_be_enough(site: Site) -> None:
    site.tell(
        make("rewrite_files/compact", task_id="abcdef1"),
        make("rewrite_files/compact", task_id="abcdef2"),
    )
    place = console_client.console_at(None, site.uri)
    assert find_task(place, "abcdef1")[0] == "abcdef1"
    for task, text in (("", "6 characters"), ("abcdef", "several tasks"), ("123456", "no task")):
        with pytest.raises(click.ClickException, match=text):
            find_task(place, task)
