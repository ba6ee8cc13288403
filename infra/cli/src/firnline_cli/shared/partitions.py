"""Finds the partition that a user names, in any form that a command prints."""

from __future__ import annotations

import difflib
import json
from collections.abc import Iterable
from contextlib import suppress

import click
from firnline_domain.identity import Scope

SHOWN = 5  # labels in an error


def partition_named(text: str, scopes: Iterable[Scope], table: str) -> str:
    """Return the partition whose label (`2026-11-24 / 3`, `whole table`) or values in JSON
    (`["2026-11-24", 3]`) the text is. Raises ClickException: none is, or several are."""
    known = {scope.partition: scope.label for scope in scopes}
    found = [one for one in known if one == text]
    found = found or [one for one in known if _normalized_json(one) == _normalized_json(text)]
    found = found or [one for one, label in known.items() if label == text]
    if len(found) == 1:
        return found[0]
    if found:
        names = ", ".join(f"'{one}'" for one in sorted(found))
        raise click.ClickException(f"{table}: {text!r} is more than one partition: say {names}")
    labels = sorted(set(known.values()))
    close = difflib.get_close_matches(text, labels, SHOWN, 0.4) or labels[:SHOWN]
    hint = f" Did you mean: {', '.join(close)}?" if close else " It has no file."
    raise click.ClickException(f"{table} has no partition {text!r}.{hint}")


def _normalized_json(text: str) -> str:
    """Return JSON without blanks; anything else as it is."""
    with suppress(ValueError):
        return json.dumps(json.loads(text))
    return text
