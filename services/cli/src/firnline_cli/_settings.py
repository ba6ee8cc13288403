"""Settings on a command line: NAME=VALUE."""

from __future__ import annotations

import click
from firnline_domain.settings.in_force import unknown, unreadable


def pairs(texts: tuple[str, ...]) -> dict[str, str]:
    """Properties. Raises BadParameter for what is none."""
    for text in texts:
        if "=" not in text:
            raise click.BadParameter(f"{text}: write NAME=VALUE")
    found = dict(text.split("=", 1) for text in texts)
    if wrong := [*unknown(found), *unreadable(found)]:
        raise click.BadParameter("; ".join(wrong))
    return found
