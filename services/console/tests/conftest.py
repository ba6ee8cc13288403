"""Records to fold: the published examples, with fields changed."""

from __future__ import annotations

import json
from collections.abc import Callable
from importlib.resources import files
from typing import Any

import pytest
from firnline_adapters.records import from_plain
from firnline_domain.values import replace

Make = Callable[..., Any]


@pytest.fixture
def make() -> Make:
    """make("rewrite_files/compact", attempt=2): a published example, changed."""

    def made(path: str, **changes: Any) -> Any:
        text = files("firnline_schemas").joinpath(f"examples/{path}.json").read_text()
        name = "".join(part.capitalize() for part in path.partition("/")[0].split("_"))
        fields = json.loads(text)
        for binary in {"key", "value"} & fields.keys():
            fields[binary] = fields[binary].encode("latin-1")
        return replace(from_plain(name, fields), **changes)

    return made
