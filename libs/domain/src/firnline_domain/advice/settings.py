"""Advice about settings that mean nothing, or not what somebody may have meant, or must not be."""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Mapping
from functools import lru_cache

from firnline_domain.advice.finding import Known, RuleFinding
from firnline_domain.settings.contradictions import find_contradictions
from firnline_domain.settings.groups import VARIABLE
from firnline_domain.settings.in_force import settings_in_force, unknown_names, unreadable_values
from firnline_domain.settings.table_rules import FORMAT_VERSION, Values, find_broken
from firnline_domain.settings.thresholds import PROPERTIES

GROUP = "firnline.group"
MAX_BROKEN = 20  # values that a finding names


Frozen = tuple[tuple[str, str], ...]


def _freeze_settings(settings: Mapping[str, str]) -> Frozen:
    return tuple(sorted(settings.items()))


# Judged whenever a table is shown; most tables of a fleet say the same.
@lru_cache(maxsize=4_096)
def _unknown_names(settings: Frozen) -> tuple[str, ...]:
    return tuple(unknown_names(dict(settings)))


@lru_cache(maxsize=4_096)
def _unreadable_values(settings: Frozen) -> tuple[str, ...]:
    return tuple(unreadable_values(dict(settings)))


def _settings_finding(said: Iterable[str], remedy: str) -> RuleFinding | None:
    found = [*said]
    if not found:
        return None
    text = "; ".join(found)
    mark = zlib.crc32(text.encode(errors="surrogatepass"))  # JSON of a catalog may have halves
    return RuleFinding(text, remedy, {"settings": len(found)}, mark=mark)


def unknown_settings(known: Known) -> RuleFinding | None:
    """Find misspelt property names, which set nothing."""
    found = _unknown_names(_freeze_settings(known.written_settings))
    return _settings_finding(found, "correct the name, or remove the property")


def unreadable_settings(known: Known) -> RuleFinding | None:
    """Find property values that cannot be parsed and so count as unset."""
    return _settings_finding(
        _unreadable_values(_freeze_settings(known.written_settings)),
        "correct the value, or remove the property",
    )


def contradictory_settings(known: Known) -> RuleFinding | None:
    """Find properties whose values are valid and contradict each other."""
    said = find_contradictions(known.written_settings, known.settings, known.fleet, known.now_ms)
    return _settings_finding(said, "change one of them")


def unknown_group(known: Known) -> RuleFinding | None:
    """Find a resource group that the deployment does not have: the table's tasks would wait for its
    workers."""
    asked = settings_in_force(known.written_settings, known.fleet)[GROUP]
    if not asked.problem:
        return None
    origin = f"{asked.origin} {asked.policy}".strip()
    return _settings_finding(
        [f"{GROUP}={asked.value} of the {origin}: {asked.problem}"],
        f"name the group in {VARIABLE} of the deployment and give it workers, or set "
        f"{GROUP} to one that there is",
    )


def broken_rules(known: Known) -> RuleFinding | None:
    """Find values that break the operator's rules. Facts that the state does not have yet break
    none."""
    counters = known.table.counters

    def find_values(name: str) -> Values | None:
        if name == FORMAT_VERSION:
            return (str(counters.format_version),)
        if name in PROPERTIES:
            text = settings_in_force(known.written_settings, known.fleet)[name].value
            return (text,) if text else ()
        return counters.facts.get(name)

    found = [*find_broken(known.rules, find_values)]
    if more := found[MAX_BROKEN:]:
        found[MAX_BROKEN:] = [f"and {len(more)} more"]
    return _settings_finding(found, "change the table, or the rule in firnline.toml")
