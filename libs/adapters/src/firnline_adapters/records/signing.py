"""Records that lead to a rewrite, a commit or a delete carry the fleet's signature, in a header.

A record is signed with its topic, partition and key: said elsewhere it is not believed. What is not
signed, or orders work and is old, goes to the dead letters.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from firnline_domain.errors import Misconfigured
from firnline_domain.policy.fleet.lanes import BEFORE_GROUP
from firnline_domain.records.signing import (
    Keyring,
    Signature,
    SigningKey,
    read_signature,
    write_signature,
)
from firnline_domain.version import VERSION
from firnline_schemas import topics

from firnline_adapters import clock
from firnline_adapters.config import redaction
from firnline_adapters.config.settings import declare_setting, from_environment
from firnline_adapters.observability.traces import HEADER as TRACEPARENT
from firnline_adapters.observability.traces import current_trace, write_traceparent

VARIABLE = "FIRNLINE_SIGNING_KEYS"
HEADER = "firnline-signature"  # key id, ms since 1970 and HMAC-SHA256 in hexadecimal
PRODUCER = ("firnline-version", VERSION.encode())
PURPOSE = b"record"
DAY_H = 24.0
# An order or a result counts for so long after it was signed: readers that stood still for longer
# find work that has been ordered again meanwhile.
MAX_AGE_H = 7 * DAY_H
HOUR_MS = 3_600_000
OPERATOR_ORDERS, MIN_ORDERS_H = "operator-orders", 31 * DAY_H  # it keeps a month, and pauses hold

Headers = Iterable[tuple[str, bytes | str | None]]


@dataclass(frozen=True, kw_only=True)
class SigningSettings:
    """Settings for signatures, which every service has."""

    signing_keys: str = declare_setting(
        VARIABLE,
        "File with the signing keys, one `ID:HEX` per line with at least 64 hexadecimal "
        "digits, or the keys themselves, comma-separated. The first key signs, all verify. "
        "`off` disables signing and verification. Required, and the same for all services.",
        "",
        secret=True,
    )


class RecordSigner:
    """Signs and verifies the records of all topics whose file says so (`signature`)."""

    def __init__(
        self,
        keys: Keyring,
        max_age_ms: int | None = None,
        now_ms: Callable[[], int] = clock.now_ms,
    ) -> None:
        """Sign and verify with these keys. `max_age_ms`: of tasks and results; None = of any
        age."""
        self.keys = keys
        self._max_age_ms = max_age_ms
        self._now_ms = now_ms

    def without_expiry(self) -> RecordSigner:
        """Return a signer for readers of topics from their beginning, that act on nothing."""
        return RecordSigner(self.keys, None, self._now_ms)

    def sign_headers(
        self,
        topic: str,
        partition: int,
        key: bytes | None,
        value: bytes | None,
        trace: str | None = None,
    ) -> list[tuple[str, bytes]]:
        """Return a record's headers: its producer's version, the trace id, and a signature where
        one is due. `trace`: None = of what is worked at here; "" = none."""
        headers = [PRODUCER]
        trace = current_trace() if trace is None else trace
        if trace and (parent := write_traceparent(trace)):
            headers.append((TRACEPARENT, parent))
        if topic not in unsigned_topics():
            parts = _signed_parts(topic, partition, key, value)
            if signature := self.keys.sign(self._now_ms(), *parts):
                headers.append((HEADER, write_signature(signature).encode()))
        return headers

    def verify_record(
        self,
        topic: str,
        partition: int,
        key: bytes | str | None,
        value: bytes | str | None,
        headers: Headers | None,
    ) -> None:
        """Return if the deployment has sent this record to this place. Raises SignatureRefused."""
        if topic in unsigned_topics() or not self.keys.is_signing:
            return
        parts = _signed_parts(topic, partition, _to_bytes(key), _to_bytes(value))
        self.keys.verify_parts(
            _read_signature(headers), self._now_ms(), self._age_ms(topic), *parts
        )

    def _age_ms(self, topic: str) -> int | None:
        name = None if self._max_age_ms is None else _expiring_topic(topic)
        if self._max_age_ms is None or name is None:
            return None
        if name == OPERATOR_ORDERS:
            return max(self._max_age_ms, int(MIN_ORDERS_H * HOUR_MS))
        return self._max_age_ms


@cache
def _expiring_topic(topic: str) -> str | None:
    """Return the topic, without its resource group, if its records are valid for a time; else None.
    Asked with every record of it."""
    name = topic.partition(BEFORE_GROUP)[0]
    return name if name in topics.topics_with(topics.TopicSignature.EXPIRES) else None


def unsigned_topics() -> frozenset[str]:
    """Return the topics whose records are never signed."""
    return topics.topics_with(topics.TopicSignature.NONE)


def _signed_parts(
    topic: str, partition: int, key: bytes | None, value: bytes | None
) -> tuple[bytes, ...]:
    """Return what is signed. No value (a tombstone) is not an empty one."""
    place = (PURPOSE, topic.encode(), str(partition).encode(), key or b"")
    return place if value is None else (*place, value)


def _to_bytes(text: bytes | str | None) -> bytes | None:
    return text.encode() if isinstance(text, str) else text


def _read_signature(headers: Headers | None) -> Signature | None:
    """Return the last signature header; None if it is none that the deployment could have
    written."""
    found = [value for name, value in headers or () if name == HEADER]
    text = _to_bytes(found[-1]) if found else None
    return read_signature((text or b"").decode(errors="replace"))


def signer_of(settings: SigningSettings) -> RecordSigner:
    """Return the signer of a service's settings. Raises Misconfigured: nothing runs unsigned by
    mistake."""
    if settings.signing_keys.lower() == "off":
        return RecordSigner(Keyring())
    return RecordSigner(keys_of(_keys_text(settings.signing_keys)), int(MAX_AGE_H * HOUR_MS))


def _keys_text(given: str) -> str:
    """Return the keys. An error never quotes the setting: it may be a key without its ID."""
    if not given:
        raise Misconfigured(
            "no signing key: write a line `ID:HEX` into a file that only the services can read "
            '(echo "k1:$(openssl rand -hex 32)"), give its path to every service as '
            f"{VARIABLE} and start again; {VARIABLE}=off runs without signatures, if no other "
            "client can write to the broker and the tables"
        )
    if ":" in given:
        return given
    try:
        return Path(given).read_text()
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is no text"
        raise Misconfigured(f"{VARIABLE} is neither ID:HEX nor a file: {why}") from None


def keys_of(text: str) -> Keyring:
    """Parse keys `ID:HEX`, one a line or separated by commas, and mask them in logs. Raises
    Misconfigured, quoting no key."""
    found = []
    for number, line in enumerate(
        filter(None, map(str.strip, text.replace(",", "\n").split("\n")))
    ):
        name, _, digits = line.partition(":")
        try:
            secret = bytes.fromhex(digits)
        except ValueError:
            secret = b""
        if not name or " " in name or not secret:
            raise Misconfigured(f"signing key {number + 1} is not of the form ID:HEX")
        redaction.mask_secrets([digits, digits.lower()])
        found.append(SigningKey(name, secret))
    if not found:
        raise Misconfigured(f"there is no signing key in what {VARIABLE} names")
    try:
        return Keyring(found)
    except ValueError as error:
        raise Misconfigured(str(error)) from None


def signer_at(environment: Mapping[str, str]) -> RecordSigner:
    """Return the signer of an environment. Raises Misconfigured."""
    return signer_of(from_environment(SigningSettings, environment))


@cache
def signer_here() -> RecordSigner:
    """Return the signer of this process's environment, where no other is given, so that nothing is
    left unsigned. Raises Misconfigured."""
    return signer_at(os.environ)


@cache
def keys_here() -> Keyring:
    """Return the deployment's keys from the environment, for the summaries of snapshots; an empty
    keyring without the variable: a command on one table needs none, and a service does not start
    without it."""
    return signer_here().keys if os.environ.get(VARIABLE) else Keyring()
