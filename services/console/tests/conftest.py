"""Records to fold: the published examples, with fields changed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests import examples
from tests.kit.console_model import console_redis as console_redis

Make = Callable[..., Any]


@pytest.fixture
def make() -> Make:
    """make("rewrite_files/compact", attempt=2): a published example, changed."""
    return examples.make
