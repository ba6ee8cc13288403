"""Which tests only `make test-long` runs: those with the marker `long`."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any

import pytest
from _pytest.mark import ParameterSet


def mark_long(values: Iterable[Any], but: Collection[Any]) -> list[Any | ParameterSet]:
    """Mark the values of a parameter, or tuples of several, as tests of the long run, except
    some."""
    return [one if one in but else _marked(one) for one in values]


def _marked(value: Any) -> ParameterSet:
    values = value if isinstance(value, tuple) else (value,)
    return pytest.param(*values, marks=pytest.mark.long)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out the long tests, unless `-m` says something of them or a test is named."""
    if "long" in config.getoption("markexpr") or any("::" in one for one in config.args):
        return
    long = [item for item in items if item.get_closest_marker("long")]
    config.hook.pytest_deselected(items=long)
    items[:] = [item for item in items if not item.get_closest_marker("long")]
