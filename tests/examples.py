"""The published examples of records, as values."""

from __future__ import annotations

import json
from importlib.resources import files
from typing import Any

from firnline_adapters.records.codec import from_plain
from firnline_domain.base.values import replace
from firnline_schemas import codec

FOLDER = files("firnline_schemas").joinpath("examples")


def make(path: str, **changes: Any) -> Any:
    """make("rewrite_files/compact", attempt=2): an example, changed."""
    fields = json.loads(FOLDER.joinpath(f"{path}.json").read_text())
    for pairs in (fields, *fields.get("pairs", ())):
        for binary in {"key", "value", "record"} & pairs.keys():
            pairs[binary] = pairs[binary].encode("latin-1")  # JSON has no bytes
    name = codec.record_name(path.partition("/")[0])
    return replace(from_plain(name, fields), **changes)
