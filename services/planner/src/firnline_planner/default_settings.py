"""Settings from the planner's environment for tables that set nothing."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping

from firnline_domain.errors import Misconfigured
from firnline_domain.policy.table_action.compute_statistics import ALL
from firnline_domain.records.parts.tallies import TARGET_BYTES
from firnline_domain.settings.contradictions import find_contradictions
from firnline_domain.settings.groups import unserved_text
from firnline_domain.settings.in_force import unknown_names, unreadable_values
from firnline_domain.settings.thresholds import Thresholds, resolve_thresholds

VARIABLE = "FIRNLINE_DEFAULTS"
# Whoever carries out an order reads these of the table and its namespace, and no order has them: as
# a default each would be decided by, and then be refused or passed over, again and again.
NO_DEFAULTS = frozenset(
    {
        TARGET_BYTES,
        "firnline.archive.location",
        "firnline.archive.table",
        "firnline.expire.branches",
        "firnline.expire.tags",
        "firnline.metadata.previous-versions-max",
        "firnline.orphans.inventory",
        "firnline.partitions.column",
        "firnline.sort",
        "firnline.sort.max-depth",
        "firnline.tags.create",
    }
)


def with_defaults(text: str, limits: Thresholds, now_ms: int) -> Thresholds:
    """Return `limits` with the settings of a JSON object, property name to value; '' = none.

    Raises Misconfigured, and nothing else for any text: advice about a deployment would have no
    reader. A default has the range of the table's property."""
    settings = _parse_settings(text)
    found = resolve_thresholds(settings, limits)
    if wrong := [*_find_problems(settings, found, now_ms)]:
        raise Misconfigured(f"{VARIABLE}: " + "; ".join(wrong))
    return found


def _parse_settings(text: str) -> Mapping[str, str]:
    try:
        found = json.loads(text or "{}")
    except (ValueError, RecursionError) as error:
        raise Misconfigured(f"{VARIABLE} is no JSON: {error}") from None
    if not isinstance(found, dict) or not all(isinstance(one, str) for one in found.values()):
        form = '{"firnline.retain.hours": "48"}'
        raise Misconfigured(f"{VARIABLE}: write a JSON object of texts, as in {form}")
    return found


def _find_problems(settings: Mapping[str, str], limits: Thresholds, now_ms: int) -> Iterator[str]:
    yield from unknown_names(settings)
    for name in sorted(NO_DEFAULTS & settings.keys()):
        yield f"{name} is a table's alone: writers and workers read it there"
    if settings.get("firnline.statistics", ALL).strip() not in ("", ALL):
        yield f"firnline.statistics names columns: as a default write {ALL}"
    yield from unreadable_values(settings)
    yield from find_contradictions(settings, limits, Thresholds(), now_ms)
    if wrong := unserved_text(limits.group, limits.groups):
        yield f"firnline.group={limits.group}: {wrong}"
