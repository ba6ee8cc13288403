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
