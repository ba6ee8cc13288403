"""Durations on the command line."""

from __future__ import annotations

import re
from typing import Any

import click

SECONDS = {"s": 1, "m": 60, "h": 3_600, "d": 86_400}


class Duration(click.ParamType):
    """A duration `90s`, `30m`, `24h`, `7d`, converted to seconds."""

    name = "duration"

    def convert(self, value: Any, param: Any, ctx: Any) -> float:
        found = re.fullmatch(r"(\d+(?:\.\d+)?)([smhd])", str(value))
        if not found:
            self.fail(f"{value!r}: say 90s, 30m, 24h or 7d", param, ctx)
        return float(found[1]) * SECONDS[found[2]]
