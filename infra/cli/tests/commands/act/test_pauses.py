"""`firnline pause` and `resume`: which pause a command ends, and what it says of the others."""

from __future__ import annotations

from typing import Any

import pytest
from click.testing import CliRunner, Result
from firnline_cli.__main__ import main
from firnline_cli.commands.act import pause, resume, unpark
from firnline_cli.commands.look import status
from firnline_cli.shared import fleet as _fleet
from firnline_domain.identity import Scope, TableName
from firnline_domain.records.orders import PauseMaintenance, ResumeMaintenance, UnparkTable
from firnline_domain.records.pauses import FLEET_PARTITION, PauseState

TABLE = TableName("uuid-1", ("shop",), "orders")
OTHER = {"table": "shop.clicks", "since_ms": 0, "by": "ops", "reason": ""}
FLEET = {**OTHER, "table": ""}
AT = ("--catalog", "http://127.0.0.1:9", "--kafka", "127.0.0.1:9")


@pytest.fixture
def sent(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """What reaches the broker."""
    records: list[Any] = []
    monkeypatch.setattr(
        _fleet.FleetClient, "_deliver", lambda self, topic, call: call(Broker(records))
    )
    for module in (pause, resume, unpark):
        monkeypatch.setattr(module, "resolve_table", lambda fleet, name: TABLE)
    monkeypatch.setattr(_fleet.FleetClient, "read_pauses", lambda self: folded(records))
    return records


def folded(records: list[Any]) -> PauseState:
    """What the topic says, as far as this test has written it."""
    state = PauseState()
    for record in records:
        state.fold_record(record, FLEET_PARTITION)
    return state


class Broker:
    """A publisher that keeps."""

    def __init__(self, records: list[Any]) -> None:
        self._records = records

    def publish(self, topic: str, key: str, record: Any) -> bool:
        self._records.append(record)
        return True

    broadcast = publish


def answering(monkeypatch: pytest.MonkeyPatch, answer: Any) -> None:
    """A console that says this, or none."""
    monkeypatch.setattr(_fleet.Where, "console_answer", lambda self, path: answer)


def firnline(*words: str) -> Result:
    return CliRunner().invoke(main, [*words, *AT])


def test_all_tables_are_not_paused_by_a_forgotten_name(sent: list[Any]) -> None:
    for command in ("pause", "resume"):
        for words in ((), ("shop.orders", "--fleet")):
            result = firnline(command, *words)
            assert (result.exit_code, sent) == (2, [])
            assert "--fleet" in result.output


def test_a_pause_says_the_command_that_ends_it_and_no_other(sent: list[Any]) -> None:
    of_table, of_fleet = firnline("pause", "shop.orders"), firnline("pause", "--fleet")
    assert "until `firnline resume shop.orders`" in of_table.output
    assert "until `firnline resume --fleet`" in of_fleet.output
    assert [(type(one), one.table) for one in sent] == [
        (PauseMaintenance, TABLE), (PauseMaintenance, None),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("pause", "ends"),
    [
        (OTHER, "`firnline resume shop.clicks` ends it"),
        (FLEET, "`firnline resume --fleet` ends it"),
    ],
)
def test_status_says_the_same(pause: dict[str, Any], ends: str) -> None:
    assert ends in status.pause_text(pause, 1_000)


@pytest.mark.parametrize(
    ("words", "pauses", "said"),
    [
        (("shop.orders",), [{**OTHER, "table": "shop.orders"}], "shop.orders: resumed"),
        (("shop.orders",), [], "shop.orders: was not paused"),
        (("shop.orders",), [OTHER], "shop.orders: was not paused\n"),
        (
            ("shop.orders",),
            [FLEET],
            "was not paused; all tables are still paused: `firnline resume --fleet`",
        ),
        (("--fleet",), [FLEET], "all tables: resumed\n"),
        (("--fleet",), [FLEET, OTHER], "still paused: `firnline resume shop.clicks`"),
        (("--fleet",), [OTHER], "all tables: was not paused; these tables are still paused"),
    ],
)
def test_a_resumption_says_what_it_did_and_what_is_left(
    sent: list[Any],
    monkeypatch: pytest.MonkeyPatch,
    words: tuple[str, ...],
    pauses: list[dict[str, Any]],
    said: str,
) -> None:
    answering(monkeypatch, {"pauses": pauses})
    result = firnline("resume", *words)
    assert result.exit_code == 0, result.output
    assert said in result.output
    written = [] if "was not paused" in said else [ResumeMaintenance]
    assert [type(one) for one in sent] == written


def test_a_pause_that_the_console_has_not_seen_yet_is_ended(
    sent: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    answering(monkeypatch, {"pauses": []})
    firnline("pause", "--fleet")
    assert "shop.orders: was not paused" in firnline("resume", "shop.orders").output
    assert "all tables: resumed" in firnline("resume", "--fleet").output
    assert "all tables: was not paused" in firnline("resume", "--fleet").output
    assert [type(one) for one in sent] == [PauseMaintenance, ResumeMaintenance]


def test_without_a_console_a_resumption_is_sent_all_the_same(
    sent: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    answering(monkeypatch, None)
    assert "shop.orders: resumed\n" in firnline("resume", "shop.orders").output
    assert len(sent) == 1


@pytest.mark.parametrize(
    ("statuses", "said"),
    [
        ({"idle": 3}, "shop.orders: no partition waits for a retry"),
        ({"parked": 1}, "shop.orders: ordered"),
        ({"backing_off": 1, "idle": 1}, "shop.orders: ordered"),
    ],
)
def test_unpark_says_where_nothing_is_parked(
    sent: list[Any], monkeypatch: pytest.MonkeyPatch, statuses: dict[str, int], said: str
) -> None:
    answering(monkeypatch, {"counted": True, "statuses": statuses, "refs": {}})
    assert said in firnline("unpark", "shop.orders").output
    assert [type(one) for one in sent] == [UnparkTable] * ("ordered" in said)


def test_unpark_takes_a_partition_as_explain_shows_it(
    sent: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    part = {"spec_id": 0, "partition": '["2026-11-24"]', "status": "parked"}
    answering(monkeypatch, {"counted": True, "statuses": {"parked": 1}, "refs": {"main": [part]}})
    monkeypatch.setattr(unpark, "scopes_of", lambda fleet, table: [Scope(0, '["2026-11-25"]')])
    for text in ("2026-11-24", '["2026-11-24"]', '[ "2026-11-24" ]'):
        assert "ordered" in firnline("unpark", "shop.orders", "--partition", text).output
    assert [one.partition for one in sent] == ['["2026-11-24"]'] * 3
    other = firnline("unpark", "shop.orders", "--partition", "2026-11-23")
    assert (other.exit_code, len(sent)) == (1, 3)
    assert "no partition '2026-11-23'. Did you mean: 2026-11-25?" in other.output


@pytest.mark.parametrize("command", ["pause", "resume", "unpark"])
def test_machines_get_json(sent: list[Any], monkeypatch: pytest.MonkeyPatch, command: str) -> None:
    answering(monkeypatch, None)
    assert '"table": "shop.orders"' in firnline(command, "shop.orders", "--json").output


def test_a_table_moves_to_a_bucket_that_is_there(
    sent: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    from firnline_cli.commands.act import move

    partitions = {"operator-orders": 8, "file-changes": 12}  # four were added
    monkeypatch.setattr(move, "resolve_table", lambda fleet, name: TABLE)
    monkeypatch.setattr(move, "partitions_of", lambda kafka, topic: partitions[topic])
    assert firnline("move", "shop.orders", "--bucket", "12").exit_code == 2
    assert not sent
    assert firnline("move", "shop.orders", "--bucket", "11", "--reason", "big").exit_code == 0
    assert [(one.bucket, one.reason) for one in sent] == [(11, "big")]
