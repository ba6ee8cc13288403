"""What a planner refuses to start with."""

from __future__ import annotations

import pytest
from firnline_adapters.logs import Log
from firnline_domain.errors import Misconfigured
from firnline_planner.bootstrap import run
from firnline_planner.settings import Settings


def test_an_unknown_driver_is_named_with_those_that_there_are() -> None:
    settings = Settings(kafka="127.0.0.1:1", state_dir="/nowhere", driver="storm")
    with pytest.raises(Misconfigured, match="'storm' is none of faust, kafka"):
        run(settings, Log("planner"))


def test_groups_that_cannot_be_read() -> None:
    settings = Settings(kafka="127.0.0.1:1", state_dir="/nowhere", groups="ETL")
    with pytest.raises(Misconfigured, match="FIRNLINE_GROUPS: 'ETL': the name of a group"):
        run(settings, Log("planner"))


def test_tables_are_assigned_by_something_that_is_known() -> None:
    settings = Settings(kafka="127.0.0.1:1", state_dir="/nowhere", assign="luck")
    with pytest.raises(Misconfigured, match="'luck' is none of hash, tables, files"):
        run(settings, Log("planner"))


def test_faust_does_not_assign() -> None:
    settings = Settings(kafka="127.0.0.1:1", state_dir="/nowhere", assign="files", driver="faust")
    with pytest.raises(Misconfigured, match="needs FIRNLINE_PLANNER_DRIVER=kafka"):
        run(settings, Log("planner"))
