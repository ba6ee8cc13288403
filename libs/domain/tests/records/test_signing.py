"""What the fleet has not said, or said elsewhere, or long ago, does not verify."""

from __future__ import annotations

from dataclasses import replace

import pytest
from firnline_domain.records.signing import Keyring, Signature, SignatureRefused, SigningKey

OLD, NEW = SigningKey("old", b"o" * 32), SigningKey("new", b"n" * 32)
KEYS = Keyring((NEW, OLD))
PARTS = (b"topic", b"key", b"value")


def refusal(keys: Keyring, signature: Signature | None, now_ms: int, *parts: bytes) -> str:
    with pytest.raises(SignatureRefused) as refused:
        keys.verify_parts(signature, now_ms, 1_000, *parts)
    return refused.value.reason


def signature(keys: Keyring = KEYS) -> Signature:
    made = keys.sign(10_000, *PARTS)
    assert made is not None
    return made


def test_the_first_key_signs_and_all_verify() -> None:
    assert signature().key_id == "new"
    KEYS.verify_parts(signature(), 11_000, 1_000, *PARTS)
    KEYS.verify_parts(signature(Keyring((OLD,))), 10_000, 1_000, *PARTS)
    assert refusal(Keyring((OLD,)), signature(), 10_000, *PARTS) == "unknown_key"


@pytest.mark.parametrize(
    "parts",
    [
        (b"other", b"key", b"value"),
        (b"topic", b"yek", b"value"),
        (b"topic", b"key", b"eulav"),
        (b"topi", b"ckey", b"value"),  # the same bytes, cut elsewhere
        (b"topic", b"key", b"value", b""),
        (b"topic", b"key"),
    ],
)
def test_what_was_not_said_is_not_verified(parts: tuple[bytes, ...]) -> None:
    assert refusal(KEYS, signature(), 10_000, *parts) == "bad_signature"


@pytest.mark.parametrize(
    "forged",
    [
        replace(signature(), at_ms=10_500),
        replace(signature(), key_id="old"),
        replace(signature(), mac=b""),
        replace(signature(), mac=bytes(32)),
        signature(Keyring((SigningKey("new", b"x" * 32),))),
    ],
)
def test_a_forged_field_is_seen(forged: Signature) -> None:
    assert refusal(KEYS, forged, 10_500, *PARTS) == "bad_signature"


def test_what_is_unsigned_stale_or_of_the_future_is_refused() -> None:
    assert refusal(KEYS, None, 10_000, *PARTS) == "unsigned"
    assert refusal(KEYS, signature(), 11_001, *PARTS) == "stale"
    assert refusal(KEYS, signature(), 8_999, *PARTS) == "signed_in_the_future"
    KEYS.verify_parts(signature(), 9_000, 1_000, *PARTS)  # a clock that is ahead
    KEYS.verify_parts(signature(), 10_000_000, None, *PARTS)  # of any age


def test_a_short_secret_and_two_of_one_id_are_no_keys_and_none_is_shown() -> None:
    with pytest.raises(ValueError, match="'a' has 31 bytes"):
        Keyring((SigningKey("a", b"x" * 31),))
    with pytest.raises(ValueError, match="same id"):
        Keyring((SigningKey("a", b"x" * 32), SigningKey("a", b"y" * 32)))
    assert "nnn" not in repr(NEW)


def test_without_keys_nothing_is_signed_and_all_is_believed() -> None:
    off = Keyring()
    assert off.sign(1, b"x") is None
    off.verify_parts(None, 1, 1, b"x")
