"""Secrets out of text that people will read: each is replaced by `***`.

Two ways find them. Patterns know a secret by what stands before it (`token=`, `Bearer`,
`://user:`) or by its own form (a key id of AWS, a JSON web token, a private key). Each pattern is
linear in the text's length: error texts quote what strangers sent. And the secrets that this
process was given are masked letter by letter, wherever a library's exception quotes them.

A name such as `token_endpoint` has no secret. `name: value` is ambiguous: `token: c4n4ry` is a
secret, `https://idp/token: 401 invalid_client` is the only line that says what is wrong. A value
stays where it is a word of a protocol, or where the name is the end of a path or an error's code
and the value has no random letters.
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
    # Signed URLs: S3, GCS, Azure.
    (
        re.compile(r"(?i)([?&](?:sig|signature|x-(?:amz|goog)-[a-z-]+|key)=)[^&\s\"'<>]+"),
        rf"\1{MASK}",
    ),
    (re.compile(r"(?i)\b(signature=)[0-9a-f]{16,}"), rf"\1{MASK}"),
    (re.compile(rf"(?i)(<[a-z]*(?:{_SECRET_NAMES})[a-z]*>)[^<]*"), rf"\1{MASK}"),
    (re.compile(r"\b(?:AKIA|ASIA)[A-Z0-9]{16}\b"), MASK),
    (re.compile(r"\beyJ[\w-]{8,}\.[\w-]+\.?[\w-]*"), MASK),
)
# A name, what stands between, a value that may be a word of a protocol instead.
_AMBIGUOUS = (
    # The schemes of `Authorization`, wherever they stand.
    re.compile(r"\b([Bb]earer|Basic|Negotiate)(\s+)([A-Za-z0-9._~+/=-]{6,})"),
    re.compile(rf"""(?i)((?:authorization|cookie)["']?)(\s*[:=,]\s*)({_VALUE})"""),
    re.compile(
        rf"""(?i)((?:{_SECRET_NAMES})[\w.-]{{0,40}}["']?)(\s{{0,3}}[=:]\s{{0,3}})({_VALUE})"""
    ),
)
# First words of what OAuth2 (RFC 6749, 6750), HTTP, S3, STS, Kafka and Python say of an error.
_PROTOCOL = re.compile(
    r"(?i:[1-5]\d\d|a|an|the|this|your|no|not|is|was|has|it|token|tokens|credentials?|key"
    r"|authenticat(?:ion|e)|authori[sz]ation|bearer|basic|group|topic|cluster|access|request"
    r"|invalid|expired|missing|malformed|unknown|unsupported|unable|cannot|could|failed|failure"
    r"|refused|rejected|denied|unauthorized|forbidden|required|permission|timed|timeout|read"
    r"|connection|connect|http|error|bad|wrong|none|null|expecting|(?:realm|error|scope)="
    r"|invalid_(?:client|grant|request|scope|token|dpop_proof|target)|unauthorized_client"
    r"|unsupported_(?:grant|token|response)_type|access_denied|insufficient_scope|server_error"
    r"|temporarily_unavailable|expired_token|authorization_pending|slow_down)[.:]?"
    r"|[A-Z][A-Za-z]{2,40}(?:Error|Exception|Timeout)[:(].*"
)
# `ExpiredToken`, `InvalidAccessKeyId`, `TokenRefreshRequired`: codes of errors, no settings.
_ERROR_CODE = re.compile(
    r"(?:Expired|Invalid|Missing|Malformed|Unrecognized|Unsupported)[A-Z]\w*"
    r"|[A-Z]\w*(?:Error|Exception|Expired|Required|Denied|Failed)"
)
_PUBLIC = re.compile(  # `token_endpoint`, `sasl.oauthbearer.token.endpoint.url`, `token_type`
    r"(?i)[-_.](?:endpoint|type|ur[il]|server|expir[a-z]{1,6}(?:[-_](?:in|at|ms))?|ttl|file|path)"
    r"[\"']?$"
)
_RANDOM = re.compile(r"(?=.{0,80}\d)(?=.{0,80}[A-Za-z]).{6,}|[^(\[]{24,}")
_BEFORE = 60  # characters of a name's word that are looked at
MIN_CHARS = 6  # a shorter one would take pieces out of other words; patterns find it still
_HARMLESS = re.compile(r"(?i)[0-9.]*|true|false|[~./][\w./-]*")  # numbers, paths of secret files
_known: set[str] = set()


def mask_secrets(secrets: Iterable[str]) -> None:
    """Mask these from now on, as they are and as URIs spell them."""
    for secret in secrets:
        for spelt in (secret, quote(secret, safe=""), unquote(secret)):
            if len(spelt) >= MIN_CHARS:
                _known.add(spelt)


def mask_environment(environment: Mapping[str, str]) -> None:
    """Mask the values of variables with the names of secrets, and the passwords of all URIs."""
    for name, value in environment.items():
        if SECRET_NAME.search(name) and not _HARMLESS.fullmatch(value):
            mask_secrets([value])
        if "://" in value:
            mask_secrets(_find_passwords(value))


def redact(text: str) -> str:
    """Return the text without secrets."""
    for secret in sorted(_known, key=len, reverse=True):
        text = text.replace(secret, MASK)
    for known_form, mask in _PATTERNS:
        text = known_form.sub(mask, text)
    for ambiguous in _AMBIGUOUS:
        text = _mask_values(ambiguous, text)
    return text


def _mask_values(pattern: re.Pattern[str], text: str) -> str:
    """Mask each value that is no word of a sentence; what follows such a word is looked at anew."""
    pieces, done = list[str](), 0
    while match := pattern.search(text, done):
        is_prose = _is_prose(match)
        pieces.append(text[done : match.end(2)] + ("" if is_prose else MASK))
        done = match.end(2 if is_prose else 0)
    return "".join((*pieces, text[done:]))


def _is_prose(match: re.Match[str]) -> bool:
    """Return True if the value is only the next word of a sentence."""
    name, between, value = match.groups()
    if _PUBLIC.search(name):
        return True
    if "=" in between or not between[-1:].isspace() or name[-1] in "\"'" or value[0] in "\"'":
        return False  # that is how settings, headers and JSON are written
    if _PROTOCOL.fullmatch(value):
        return True
    before = match.string[max(match.start() - _BEFORE, 0) : match.start()]
    word = (before.split()[-1] if before and not before[-1].isspace() else "") + name
    is_place_or_code = "/" in word or _ERROR_CODE.fullmatch(word)
    return bool(is_place_or_code and not _RANDOM.match(value))


def _find_passwords(value: str) -> list[str]:
    try:
        return [found] if (found := urlsplit(value).password) else []
    except ValueError:
        return []
