"""Modules of actions are found: no list names them."""

from __future__ import annotations

from typing import Any

from firnline_domain.policy.table_action.registry import TABLE_ACTIONS, find_actions
from firnline_worker.table_actions.registry import ActionTools, build_table_actions

NOTHING: Any = None


def test_a_worker_carries_out_each_action_of_the_policy() -> None:
    tools = ActionTools(*(NOTHING,) * 7)
    assert build_table_actions(tools).keys() == TABLE_ACTIONS.keys()
    assert {"expire", "create_tags"} <= TABLE_ACTIONS.keys()


def test_no_two_actions_have_one_name() -> None:
    names = [one.name for one in find_actions()]
    assert sorted(names) == sorted(TABLE_ACTIONS)
