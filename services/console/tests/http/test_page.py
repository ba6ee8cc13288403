"""The page knows every kind of event, status and hint that the console sends."""

from __future__ import annotations

import re
from importlib.resources import files
from inspect import getsource

import pytest
from firnline_console.views import event_text, statuses
from firnline_domain.records.states import TABLE_STATUSES

PAGE = files("firnline_console").joinpath("page.html").read_text()
EVENTS = set(re.findall(r'_event\([^"]*?"(\w+)"', getsource(event_text), re.DOTALL)) | {
    "commit",
    "table",
    "counters",
    "operator",
    "dead_letter",
}
GROUNDS = ("surface", "raised")
CODES = set(re.findall(r'TableStatus\("(\w+)"', getsource(statuses))) | {*statuses.CODES.values()}


def literal(name: str) -> str:
    """The text of a constant of the page's script."""
    found = re.search(rf"const {name} = ([\[{{].*?[\]}}]);", PAGE, re.DOTALL)
    assert found, name
    return found[1]


def test_events_of_every_kind_have_a_name_and_a_group() -> None:
    assert {"compared", "committed", "own", "order"} <= EVENTS
    assert event_text.MAKERS
    assert {kind for kind in EVENTS if f"{kind}:" not in literal("KINDS")} == set()
    assert {kind for kind in EVENTS if f'"{kind}"' not in literal("GROUPS")} == set()


def test_tables_of_every_status_can_be_filtered() -> None:
    assert {"stuck", "waiting", "off", "healthy", "paused"} <= CODES
    assert {code for code in CODES if f'"{code}"' not in literal("URGENCY")} == set()
    assert set(TABLE_STATUSES) == CODES


@pytest.mark.parametrize("asked", ["/api/tables?${query}", "sort:", "cursor", '["status", status]'])
def test_tables_are_asked_for_by_the_page(asked: str) -> None:
    assert asked in PAGE
    assert "known.tables.filter" not in PAGE  # that would search one page only


def test_each_hint_ends_the_pause_that_it_stands_beside() -> None:
    assert 'firnline resume ${one.table || "--fleet"}' in PAGE


def test_a_button_that_copies_an_id_is_called_what_it_shows() -> None:
    """WCAG 2, 2.5.3: a label beside the text would be another name than people see."""
    [button] = re.findall(r'h\("button", \{ class: "id mono"[^\n]*', PAGE)
    assert "title: `Copy ${id}`" in button
    assert "aria-label" not in button


def test_contrast_of_the_light_colours() -> None:
    """WCAG 2, 1.4.3: 4.5 to 1 for text of this size."""
    light = dict(re.findall(r"--([\w-]+): (#[0-9a-f]{6})", PAGE.split("@media")[0]))
    pairs = [(name, f"{name}-wash") for name in ("ice", "good", "warn", "bad")]
    pairs += [
        (name, ground) for name in ("text", "soft", "dim") for ground in ("surface", "raised")
    ]
    poor = {pair: contrast(light[pair[0]], light[pair[1]]) for pair in pairs}
    assert {pair: ratio for pair, ratio in poor.items() if ratio < 4.5} == {}


def contrast(one: str, other: str) -> float:
    dark, light = sorted((luminance(one), luminance(other)))
    return round((light + 0.05) / (dark + 0.05), 2)


def luminance(colour: str) -> float:
    parts = (int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5))
    red, green, blue = (c / 12.92 if c <= 0.03928 else ((c + 0.055) / 1.055) ** 2.4 for c in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue
