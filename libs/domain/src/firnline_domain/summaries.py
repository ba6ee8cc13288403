"""A snapshot's summary: texts that any writer may have written."""

from __future__ import annotations

from collections.abc import Mapping

TASK_ID = "firnline.task-id"  # of a snapshot that Firnline committed; ids, comma-separated


def number_in(summary: Mapping[str, str], name: str) -> int:
    """A count of the summary; 0 where it is absent or no number (`²` is a digit, too)."""
    text = summary.get(name) or ""
    return int(text) if text.isascii() and text.isdigit() else 0
