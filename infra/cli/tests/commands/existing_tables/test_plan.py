"""One table that fails ends no list of the others."""

from __future__ import annotations

import json
from typing import Any

import pytest
from firnline_cli.commands.existing_tables.plan import show_apart
from firnline_cli.forecast.catalog import Forecasts, Unread
from firnline_cli.forecast.report import as_json
from firnline_domain.settings.thresholds import Thresholds


class OddTables:
    """Of which each raises what no caller expects."""

    def load_named(self, namespace: tuple[str, ...], name: str) -> Any:
        raise OverflowError("date value out of range")


def test_an_odd_table_is_told_by_its_name(capsys: pytest.CaptureFixture[str]) -> None:
    tables: Any = OddTables()
    found = Forecasts(tables, Thresholds(), {}).forecast_table(("db", "bad"), 0)
    assert found == Unread("db.bad", "OverflowError: date value out of range")
    assert not show_apart(as_json, ("db", "bad"), found, 0)
    told = json.loads(capsys.readouterr().out)
    assert told == {"table": "db.bad", "error": "OverflowError: date value out of range"}


def test_so_is_one_that_cannot_be_shown(capsys: pytest.CaptureFixture[str]) -> None:
    odd: Any = object()
    assert not show_apart(as_json, ("db", "bad"), odd, 0)
    assert "AttributeError" in capsys.readouterr().out
