"""Numbers that people write into properties: one way to read them, and a range for each.

ASCII digits, spaces around them ignored: `512`. A real number may have a fraction and an exponent:
`0.5`, `1e-3`. Nothing else is a number: no sign, `1_000`, `0x10`, `NaN`, `inf`, digits of other
scripts, nor a text that is longer than any number.
"""

from __future__ import annotations

import re
from math import isfinite

from firnline_domain.base.values import Value

MAX_CHARS = 40
_WHOLE = re.compile(r"[0-9]{1,18}", re.ASCII)  # less than a long's highest value
# A float from 0.0001 on has 17 digits that count after up to three zeros, as Python writes it.
_REAL = re.compile(r"[0-9]{1,18}(\.[0-9]{1,20})?([eE][+-]?[0-9]{1,3})?", re.ASCII)


class Range(Value):
    """Lowest and highest value that a number may have; `whole_range` = no fraction."""

    low: float
    high: float
    whole: bool = True

    def parse(self, text: str) -> int | float | None:
        """Return the number; None if the text is none, or one outside the range."""
        value = parse_number(text, self.whole)
        return value if value is not None and self.low <= value <= self.high else None

    @property
    def allowed_text(self) -> str:
        """Describe the numbers that are accepted."""
        kind = "whole number" if self.whole else "number"
        return f"{kind} from {_format_number(self.low)} to {_format_number(self.high)}"


def whole_range(low: int, high: int) -> Range:
    """Return a range of counts, bytes or milliseconds."""
    return Range(low, high)


def real_range(low: float, high: float) -> Range:
    """Return a range of shares, rates or hours."""
    return Range(low, high, whole=False)


def parse_number(text: str, is_whole: bool = True) -> int | float | None:
    """Return the number that a text is, or None."""
    if len(text) > MAX_CHARS:
        return None
    text = text.strip(" \t\r\n")
    if is_whole:
        return int(text) if _WHOLE.fullmatch(text) else None
    value = float(text) if _REAL.fullmatch(text) else None
    return value if value is not None and isfinite(value) else None


def _format_number(value: float) -> str:
    return f"{int(value):,}" if value == int(value) else f"{value:g}"
