"""The process's redactor: everything that leaves it as text for people goes through `redacted`.

Beside what looks like a secret (`firnline_domain.redaction`) it masks those that this process was
given, letter by letter, wherever an exception of some library quotes them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from urllib.parse import quote, unquote, urlsplit

from firnline_domain import redaction
from firnline_domain.redaction import MASK, SECRET_NAME

MIN_CHARS = 6  # a shorter one would take pieces out of other words; patterns find it still
_HARMLESS = re.compile(r"(?i)[0-9.]*|true|false|[~./][\w./-]*")  # numbers, paths of secret files
_known: set[str] = set()


def learn(secrets: Iterable[str]) -> None:
    """Mask these from now on, as they are and as URIs spell them."""
    for secret in secrets:
        for spelt in (secret, quote(secret, safe=""), unquote(secret)):
            if len(spelt) >= MIN_CHARS:
                _known.add(spelt)


def learn_environment(environment: Mapping[str, str]) -> None:
    """What variables with the names of secrets hold, and the passwords of all URIs."""
    for name, value in environment.items():
        if SECRET_NAME.search(name) and not _HARMLESS.fullmatch(value):
            learn([value])
        if "://" in value:
            learn(_passwords(value))


def redacted(text: str) -> str:
    """The text without secrets."""
    for secret in sorted(_known, key=len, reverse=True):
        text = text.replace(secret, MASK)
    return redaction.redacted(text)


def _passwords(value: str) -> list[str]:
    try:
        return [found] if (found := urlsplit(value).password) else []
    except ValueError:
        return []
