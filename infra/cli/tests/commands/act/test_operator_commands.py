"""What the commands that change something say before they reach catalog or broker."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from firnline_cli.__main__ import main
from firnline_cli.commands.existing_tables.adopt import Rate
from firnline_cli.shared.durations import Duration
from firnline_domain.identity import TableName
from firnline_iceberg.table.catalog_client import Tables
from firnline_iceberg.table.loaded_table import TableGone
from firnline_local.processes.ports import free_port


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No stack of the developer's is found."""
    monkeypatch.chdir(tmp_path)
    for name in ("CATALOG_URI", "KAFKA", "CONSOLE_URI", "SWEEP_AGE_S"):
        monkeypatch.delenv(f"FIRNLINE_{name}", raising=False)
    monkeypatch.setenv("FIRNLINE_SIGNING_KEYS", f"tests:{'5e' * 32}")


def firnline(*words: str) -> Result:
    return CliRunner().invoke(main, words)


@pytest.mark.parametrize(
    "words",
    [
        ("sweep-outputs",),
        ("unpark", "a.b"),
        ("move", "a.b", "--bucket", "1"),
        ("undo", "abcdef"),
        ("verify", "abcdef"),
        ("pause", "--fleet"),
        ("resume", "a.b"),
        ("plan",),
        ("adopt", "--all"),
    ],
)
def test_without_a_stack_they_say_how_to_start_one(words: tuple[str, ...]) -> None:
    result = firnline(*words)
    assert result.exit_code == 1
    assert "firnline up" in result.output
    assert "FIRNLINE_CATALOG_URI" in result.output


@pytest.mark.parametrize("words", [(), ("a.b", "--all")])
def test_unpark_wants_tables_or_all(words: tuple[str, ...]) -> None:
    assert firnline("unpark", *words).exit_code == 2


@pytest.mark.parametrize("words", [(), ("--home", "--bucket", "1")])
def test_move_wants_one_place(words: tuple[str, ...]) -> None:
    assert firnline("move", "a.b", *words).exit_code == 2


@pytest.mark.parametrize(
    ("text", "seconds"), [("90s", 90), ("30m", 1_800), ("1.5h", 5_400), ("7d", 604_800)]
)
def test_durations(text: str, seconds: float) -> None:
    assert Duration().convert(text, None, None) == seconds


def test_a_duration_without_unit_is_refused() -> None:
    result = firnline("sweep-outputs", "--older-than", "24")
    assert result.exit_code == 2
    assert "90s, 30m, 24h or 7d" in result.output


def test_an_age_that_is_not_safe_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    short = ("sweep-outputs", "--older-than", "23h")
    assert "--idle" in firnline(*short).output
    monkeypatch.setenv("FIRNLINE_SWEEP_AGE_SECONDS", "3600")
    assert "--idle" not in firnline(*short).output


@pytest.mark.parametrize(
    "words",
    [("sweep-outputs", "a.b"), ("unpark", "a.b"), ("pause", "a.b"), ("plan",)],
)
def test_a_catalog_that_is_away_is_said(words: tuple[str, ...]) -> None:
    result = firnline(*words, "--catalog", f"http://127.0.0.1:{free_port()}")
    assert result.exit_code == 1
    assert "catalog" in result.output


def test_a_name_that_the_catalog_does_not_know_is_helped(monkeypatch: pytest.MonkeyPatch) -> None:
    def named(self: Tables, namespace: tuple[str, ...], name: str) -> None:
        raise TableGone(TableName("", namespace, name))

    monkeypatch.setattr(Tables, "load_named", named)
    monkeypatch.setattr(Tables, "table_names", lambda self, below: iter([(*below, "clicks")]))
    for words in (("pause", "shop.click"), ("plan", "--table", "shop.click")):
        result = firnline(*words, "--catalog", "http://127.0.0.1:9", "--kafka", "127.0.0.1:9")
        assert result.exit_code == 1
        assert "no table shop.click. Did you mean: shop.clicks?" in result.output
    assert str(TableGone(TableName("", ("shop",), "click"))) == "shop.click does not exist"


def test_a_table_has_a_namespace() -> None:
    result = firnline("unpark", "orders", "--catalog", "http://127.0.0.1:9")
    assert "namespace.name" in result.output


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--table", "orders"), "namespace.name"),
        (("--set", "firnline.enabled"), "NAME=VALUE"),
        (("--set", "firnline.enable=true"), "firnline.enabled is meant?"),
        (("--fleet", "firnline.enabled=maybe"), "true or false"),
    ],
)
def test_plan_says_what_it_wants(words: tuple[str, ...], said: str) -> None:
    result = firnline("plan", *words, "--catalog", "http://127.0.0.1:9")
    assert result.exit_code == 2
    assert said in result.output.replace("\n", " ").replace("│", "")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ((), "--all"),
        (("--all", "--table", "a.b"), "--all"),
        (("--table", "b"), "namespace.name"),
        (("--all", "--rate", "60"), "60/min, 5/s or 1000/h"),
        (("--all", "--rate", "0/s"), "60/min"),
        (("--all", "--fleet", "firnline.nothing=1"), "firnline.nothing"),
    ],
)
def test_adopt_says_what_it_wants(words: tuple[str, ...], said: str) -> None:
    result = firnline("adopt", *words)
    assert result.exit_code == 2
    assert said in result.output


@pytest.mark.parametrize(("text", "seconds"), [("60/min", 1), ("5/s", 0.2), ("1200/h", 3)])
def test_rates(text: str, seconds: float) -> None:
    assert Rate().convert(text, None, None) == seconds


def test_adopt_without_a_broker_asks_for_one() -> None:
    result = firnline("adopt", "--all", "--catalog", f"http://127.0.0.1:{free_port()}")
    assert result.exit_code == 1
    assert "FIRNLINE_KAFKA" in result.output
