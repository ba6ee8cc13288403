"""Secrets out of text that people will read: each is replaced by `***`.

Two ways find them. Patterns know a secret by what stands before it (`token=`, `Bearer`,
`://user:`) or by its own form (a key id of AWS, a JSON web token, a private key). Each pattern is
linear in the text's length: error texts quote what strangers sent. And the secrets that this
process was given are masked letter by letter, wherever a library's exception quotes them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from urllib.parse import quote, unquote, urlsplit

MASK = "***"

# Names of settings, JSON fields, headers and query parameters whose value is a secret.
_SECRET_NAMES = (
    r"pass(?:word|wd|phrase)|secret|token|credential|api[-_.]?key|access[-_.]?key(?:[-_.]?id)?"
    r"|account[-_.]?key|private[-_.]?key|sas[-_.]?token|connection[-_.]?string|jaas[-_.]?config"
)
SECRET_NAME = re.compile(rf"(?i){_SECRET_NAMES}")
_VALUE = r"""(?:"[^"\n]*"|'[^'\n]*'|[^\s"',;&)}\]]+)"""
_PATTERNS: tuple[tuple[re.Pattern[str], str], ...] = (
    (re.compile(r"-----BEGIN [A-Z ]*PRIVATE KEY-----[^-]*(?:-----END [A-Z ]*-----)?"), MASK),
    # `scheme://user:password@host`: up to the last @ of the authority.
    (re.compile(r"""://[^\s/?#"'<>|]*@"""), f"://{MASK}@"),
    # `Authorization: Basic ...`, and the schemes wherever they stand.
    (re.compile(r"\b([Bb]earer|Basic|Negotiate)\s+[A-Za-z0-9._~+/=-]{6,}"), rf"\1 {MASK}"),
    (re.compile(rf"""(?i)((?:authorization|cookie)["']?\s*[:=,]\s*){_VALUE}"""), rf"\1{MASK}"),
    # Signed URLs: S3, GCS, Azure.
    (
        re.compile(r"(?i)([?&](?:sig|signature|x-(?:amz|goog)-[a-z-]+|key)=)[^&\s\"'<>]+"),
        rf"\1{MASK}",
    ),
    (re.compile(r"(?i)\b(signature=)[0-9a-f]{16,}"), rf"\1{MASK}"),
    (re.compile(rf"(?i)(<[a-z]*(?:{_SECRET_NAMES})[a-z]*>)[^<]*"), rf"\1{MASK}"),
    (
        re.compile(
            rf"""(?i)((?:{_SECRET_NAMES})[\w.-]{{0,40}}["']?\s{{0,3}}[=:]\s{{0,3}}){_VALUE}"""
        ),
        rf"\1{MASK}",
    ),
    (re.compile(r"\b(?:AKIA|ASIA)[A-Z0-9]{16}\b"), MASK),
    (re.compile(r"\beyJ[\w-]{8,}\.[\w-]+\.?[\w-]*"), MASK),
)
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
    for pattern, mask in _PATTERNS:
        text = pattern.sub(mask, text)
    return text


def _passwords(value: str) -> list[str]:
    try:
        return [found] if (found := urlsplit(value).password) else []
    except ValueError:
        return []
