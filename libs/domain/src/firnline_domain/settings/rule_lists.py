"""Settings that are lists of rules, separated by `;`."""

from __future__ import annotations

from collections.abc import Callable


class UnreadableRules(ValueError):
    """A rule is not written as it has to be; the message says how."""


def split_rules(text: str) -> list[str]:
    """Return the rules of a setting, without empty ones."""
    return [part.strip() for part in text.split(";") if part.strip()]


def find_problem(parse: Callable[[str], object], text: str) -> str | None:
    """Return what is wrong with a setting and how to write it; None if `parse` can read it."""
    try:
        parse(text)
    except UnreadableRules as error:
        return str(error)
    return None
