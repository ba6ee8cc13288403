"""What holds for tables that say nothing, from the planner's environment."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping

from firnline_domain.errors import Misconfigured
from firnline_domain.records.tallies import TARGET_BYTES
from firnline_domain.settings.contradictions import contradictions
from firnline_domain.settings.groups import unserved
from firnline_domain.settings.in_force import unknown, unreadable, unused
from firnline_domain.settings.thresholds import Thresholds, thresholds

VARIABLE = "FIRNLINE_DEFAULTS"


def with_defaults(text: str, limits: Thresholds, now_ms: int) -> Thresholds:
    """`limits` with the settings of a JSON object, property name to value; '' = none.

    Raises Misconfigured, and nothing else whatever the text is: nobody would see advice about a
    fleet. A default has the range of the table's property.
    """
    settings = _settings(text)
    found = thresholds(settings, limits)
    if wrong := [*_wrong(settings, found, now_ms)]:
        raise Misconfigured(f"{VARIABLE}: " + "; ".join(wrong))
    return found


def _settings(text: str) -> Mapping[str, str]:
    try:
        found = json.loads(text or "{}")
    except (ValueError, RecursionError) as error:
        raise Misconfigured(f"{VARIABLE} is no JSON: {error}") from None
    if not isinstance(found, dict) or not all(isinstance(one, str) for one in found.values()):
        form = '{"firnline.retain.hours": "48"}'
        raise Misconfigured(f"{VARIABLE}: write a JSON object of texts, as in {form}")
    return found


def _wrong(settings: Mapping[str, str], limits: Thresholds, now_ms: int) -> Iterator[str]:
    yield from unknown(settings)
    if TARGET_BYTES in settings:
        yield f"{TARGET_BYTES} is a table's alone: writers and workers read it there"
    yield from unreadable(settings)
    yield from unused(settings)
    yield from contradictions(settings, limits, Thresholds(), now_ms)
    if wrong := unserved(limits.group, limits.groups):
        yield f"firnline.group={limits.group}: {wrong}"
