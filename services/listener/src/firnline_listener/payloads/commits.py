"""Commits in Firnline's own words: one object, or an array of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

import msgspec
from firnline_domain.base.values import Identifier
from msgspec import Meta

from firnline_listener.port import Doorbell

MAX_COMMITS = 1_000  # of one body
Level = Annotated[str, Meta(min_length=1, max_length=1_000)]


class Commit(msgspec.Struct, rename="kebab", forbid_unknown_fields=True):
    """A table that may have changed. Without a name any table of the namespace may have."""

    namespace: Annotated[list[Level], Meta(max_length=32)] = []
    name: Annotated[
        str, Meta(max_length=1_000, description="Old and new name of a renamed table: two objects.")
    ] = ""
    catalog: Annotated[
        str, Meta(max_length=1_000, description="Name of the catalog in `firnline.toml`.")
    ] = ""
    uuid: Annotated[str, Meta(max_length=100, description="Instead of a name.")] = ""
    snapshot_id: Annotated[
        Identifier | None, Meta(description="Current snapshot of `main`. It saves a call.")
    ] = None
    metadata_location: Annotated[
        str, Meta(max_length=10_000, description="Current metadata file. It saves a call.")
    ] = ""


Body = Annotated[list[Commit], Meta(max_length=MAX_COMMITS)] | Commit
_decoder: msgspec.json.Decoder[Any] = msgspec.json.Decoder(Body)


def parse(_: Mapping[str, str], body: bytes, catalog: str, only: str) -> list[Doorbell]:
    """Return the doorbells of a body; those without a catalog are for `catalog`. `only`: the
    others are left out. Raises ValueError."""
    found = _decoder.decode(body)
    commits = found if isinstance(found, list) else [found]
    return [
        Doorbell(
            one.catalog or catalog,
            tuple(one.namespace),
            one.name,
            one.uuid,
            one.snapshot_id,
            one.metadata_location,
        )
        for one in commits
        if only in ("", one.catalog)
    ]
