"""Signatures that only the fleet can make: HMAC-SHA256 with keys that its services share.

A signature covers what is said, where it is said (so that it cannot be said again elsewhere) and
when. Several keys at once make a change of keys possible: the first one signs, all of them verify.
"""

from __future__ import annotations

import hmac
import struct
from collections.abc import Sequence
from dataclasses import dataclass, field

from firnline_domain.errors import PoisonousRecord

MIN_SECRET_BYTES = 32  # as many as the hash has: a shorter one is easier to guess than it
UNSIGNED, UNKNOWN_KEY, BAD_SIGNATURE = "unsigned", "unknown_key", "bad_signature"
STALE, FUTURE = "stale", "signed_in_the_future"


class SignatureRefused(PoisonousRecord):
    """The record is not signed by the fleet, or not lately; `reason` is one of the codes above."""


@dataclass(frozen=True)
class SigningKey:
    """`secret`: at least MIN_SECRET_BYTES; never shown."""

    id: str
    secret: bytes = field(repr=False)


@dataclass(frozen=True)
class Signature:
    """`mac`: 32 bytes."""

    key_id: str
    at_ms: int
    mac: bytes


class Keyring:
    """The keys of a fleet; without any, nothing is signed and everything is believed."""

    def __init__(self, keys: Sequence[SigningKey] = ()) -> None:
        """Sign with the first key, and accept all. Raises ValueError for two keys of one id, or a
        short one."""
        self._keys = {key.id: key for key in keys}
        self._first = keys[0] if keys else None
        if len(self._keys) < len(keys):
            raise ValueError("two signing keys have the same id")
        for key in keys:
            if len(key.secret) < MIN_SECRET_BYTES:
                raise ValueError(
                    f"signing key {key.id!r} has {len(key.secret)} bytes, "
                    f"at least {MIN_SECRET_BYTES} are needed"
                )

    @property
    def is_signing(self) -> bool:
        """Return False if signing is off."""
        return self._first is not None

    def sign(self, at_ms: int, *parts: bytes) -> Signature | None:
        """Sign with the first key; None if signing is off. The same parts in the same order
        verify."""
        if self._first is None:
            return None
        return Signature(self._first.id, at_ms, _compute_mac(self._first, at_ms, parts))

    def verify_parts(
        self, signature: Signature | None, now_ms: int, max_age_ms: int | None, *parts: bytes
    ) -> None:
        """Return where one of the keys has signed these parts, at most `max_age_ms` ago (None: at
        any time), or ahead: a host whose clock is an hour ahead has done its work all the same.
        Raises SignatureRefused."""
        if not self.is_signing:
            return
        if signature is None:
            raise SignatureRefused(UNSIGNED, "it has no signature of this deployment")
        if (key := self._keys.get(signature.key_id)) is None:
            known = ", ".join(self._keys)
            raise SignatureRefused(
                UNKNOWN_KEY, f"signed by the key {signature.key_id!r:.80}; known here: {known}"
            )
        if not hmac.compare_digest(_compute_mac(key, signature.at_ms, parts), signature.mac):
            raise SignatureRefused(BAD_SIGNATURE, f"the key {key.id!r} has not signed this")
        age_ms = now_ms - signature.at_ms
        if max_age_ms is None:
            return
        if age_ms > max_age_ms:
            raise SignatureRefused(
                STALE, f"signed {age_ms // 1000} s ago, at most {max_age_ms // 1000} s count"
            )
        if -age_ms > max_age_ms:
            raise SignatureRefused(FUTURE, f"signed {-age_ms // 1000} s ahead of this clock")


def write_signature(signature: Signature) -> str:
    """Return its text: key id, ms since 1970 and HMAC-SHA256 in hexadecimal."""
    return f"{signature.key_id} {signature.at_ms} {signature.mac.hex()}"


def read_signature(text: str | None) -> Signature | None:
    """Return the signature that a text is; None if it is none that `write_signature` could have
    written."""
    try:
        key_id, at_ms, mac = (text or "").split(" ")
        return Signature(key_id, int(at_ms), bytes.fromhex(mac))
    except ValueError:
        return None


def _compute_mac(key: SigningKey, at_ms: int, parts: Sequence[bytes]) -> bytes:
    """Compute the MAC of the parts, each behind its length, so that no two lists of parts give the
    same bytes. In one call: an `hmac` object takes 5 us more, for each event of a planner."""
    framed = [key.id.encode(), str(at_ms).encode(), *parts]
    lengths = struct.pack(f">{len(framed)}Q", *map(len, framed))
    return hmac.digest(key.secret, b"".join([lengths, *framed]), "sha256")
