"""What `firnline run` says when it hands its action to a planner."""

from __future__ import annotations

from typing import Any

import pytest
from click.testing import CliRunner, Result
from firnline_cli.__main__ import main
from firnline_cli.commands.act import run
from firnline_cli.running import fleet_run
from firnline_cli.shared.fleet import FleetClient, Where
from firnline_domain.identity import TableName
from firnline_domain.records.orders import PauseMaintenance
from firnline_domain.records.pauses import PauseState

from tests.kit.names import TABLE

WHERE = ("--kafka", "127.0.0.1:1", "--catalog", "http://127.0.0.1:1")


@pytest.fixture
def sent(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """A planner that runs, and what it was sent; no Spark here."""
    found: list[Any] = []
    monkeypatch.delenv("FIRNLINE_CONFIG", raising=False)
    monkeypatch.setattr(run, "find_spec", lambda _: None)
    monkeypatch.setattr(run, "with_everything", lambda: pytest.fail("Spark was fetched"))
    monkeypatch.setattr(run, "resolve_table", lambda *_: TABLE)
    monkeypatch.delenv("FIRNLINE_PLANNER_APP", raising=False)
    monkeypatch.setattr(fleet_run, "members_of", lambda _, group: running_in(group, "planner"))
    monkeypatch.setattr(FleetClient, "read_pauses", lambda _: PauseState())
    monkeypatch.setattr(FleetClient, "send", lambda _, topic, record: found.append(record))
    monkeypatch.setattr(Where, "console_answer", lambda *_: None)
    return found


def running_in(group: str, app: str) -> list[str]:
    return ["a member"] if group == app else []


def firnline(action: str) -> Result:
    return CliRunner().invoke(main, ["run", "db.t", action, *WHERE])


def test_a_request_to_a_planner_fetches_no_spark(sent: list[Any]) -> None:
    result = firnline("compact")
    assert result.exit_code == 0, result.output
    assert [one.action for one in sent] == ["compact"]
    assert "`firnline tasks`" in result.output


@pytest.mark.parametrize(("app", "code"), [("planner-2", 0), ("planner-3", 1)])
def test_the_planner_is_looked_for_by_its_own_name(
    app: str, code: int, sent: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FIRNLINE_PLANNER_APP", "planner-2")
    monkeypatch.setattr(fleet_run, "members_of", lambda _, group: running_in(group, app))
    result = firnline("compact")
    assert (result.exit_code, len(sent)) == (code, 1 - code), result.output


@pytest.mark.parametrize(("table", "ends"), [(TABLE, "db.t"), (None, "--fleet")])
def test_a_paused_table_is_refused(
    table: TableName | None, ends: str, sent: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The planner drops such a request without a word."""
    pauses = PauseState()
    pauses.fold_record(PauseMaintenance(table, "migration", "ada", 1), 0)
    monkeypatch.setattr(FleetClient, "read_pauses", lambda _: pauses)
    result = firnline("compact")
    assert (result.exit_code, sent) == (1, [])
    assert f"`firnline resume {ends}`" in result.output


@pytest.mark.parametrize(("action", "is_said"), [("compact", True), ("expire", False)])
def test_shadow_mode_is_said(
    action: str, is_said: bool, sent: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """There a rewrite waits. What is asked of a whole table does not."""
    monkeypatch.setattr(Where, "console_answer", lambda *_: {"hold": {"reason": "shadow"}})
    result = firnline(action)
    assert len(sent) == 1
    assert ("firnline.shadow=false" in result.output) is is_said
