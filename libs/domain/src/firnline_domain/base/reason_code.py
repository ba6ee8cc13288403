"""Codes of reasons: each has its meaning and the words that people read beside it."""

from __future__ import annotations

from enum import StrEnum
from typing import Self


class ReasonCode(StrEnum):
    """A member is `code, meaning, words`. Codes are stable: people and dashboards match on them.
    The meaning is that of docs/reference/codes.md, in Markdown. The words are those of `explain`
    and events; a name in braces is a number of the decision.
    """

    meaning: str
    words: str

    def __new__(cls, code: str, meaning: str = "", words: str = "") -> Self:
        member = str.__new__(cls, code)
        member._value_ = code
        member.meaning, member.words = meaning, words
        return member

    @property
    def entry(self) -> tuple[str, str, str]:
        """The same code as a member of another enumeration."""
        return self.value, self.meaning, self.words
