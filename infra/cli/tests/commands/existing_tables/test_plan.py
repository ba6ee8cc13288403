"""One table that fails ends no list of the others."""

from __future__ import annotations

import json
from typing import Any, ClassVar

import pytest
from click.testing import CliRunner
from firnline_cli.__main__ import main
from firnline_cli.commands.existing_tables.plan import show_apart
from firnline_cli.forecast.catalog import Forecasts, Unread
from firnline_cli.forecast.report import as_json
from firnline_domain.settings.thresholds import Thresholds
from firnline_iceberg.table.catalog_client import Tables
from pyiceberg.exceptions import ForbiddenError


class OddTables:
    """Of which each raises what no caller expects."""

    def load_named(self, namespace: tuple[str, ...], name: str) -> Any:
        raise OverflowError("date value out of range")


def test_an_odd_table_is_told_by_its_name(capsys: pytest.CaptureFixture[str]) -> None:
    tables: Any = OddTables()
    found = Forecasts(tables, Thresholds(), {}).forecast_table(("db", "bad"), 0)
    assert found == Unread("db.bad", "OverflowError: date value out of range")
    assert not show_apart(as_json, ("db", "bad"), found)
    told = json.loads(capsys.readouterr().out)
    assert told == {"table": "db.bad", "error": "OverflowError: date value out of range"}


def test_so_is_one_that_cannot_be_shown(capsys: pytest.CaptureFixture[str]) -> None:
    odd: Any = object()
    assert not show_apart(as_json, ("db", "bad"), odd)
    assert "AttributeError" in capsys.readouterr().out


class RefusingCatalog:
    """A client of a catalog with a namespace that it may not list."""

    properties: ClassVar[dict[str, str]] = {}

    def list_namespaces(self, namespace: tuple[str, ...]) -> list[tuple[str, ...]]:
        return [] if namespace else [("secret",), ("open",)]

    def list_tables(self, namespace: tuple[str, ...]) -> list[tuple[str, ...]]:
        if namespace == ("secret",):
            raise ForbiddenError("not yours")
        return [("open", "t")]

    def load_table(self, identifier: tuple[str, ...]) -> Any:
        raise OverflowError("date value out of range")


@pytest.mark.parametrize(
    "words",
    [
        ("plan",),
        ("adopt", "--all", "--dry-run"),
        ("adopt", "--all", "--from-amoro"),
        ("sweep-outputs", "--dry-run"),
    ],
)
def test_a_namespace_that_may_not_be_listed_ends_no_command(
    words: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FIRNLINE_SIGNING_KEYS", "off")
    monkeypatch.setattr(Tables, "_catalog", RefusingCatalog())
    result = CliRunner().invoke(main, [*words, "--catalog", "http://127.0.0.1:9"])
    said = " ".join(result.output.split())
    assert result.exit_code == 1
    assert "open.t" in said
    assert "namespace secret" in said
    assert "does not let us have secret (403)" in said
