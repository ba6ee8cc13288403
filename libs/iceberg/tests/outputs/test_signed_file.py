"""A file that somebody else put beside a table's metadata is not the fleet's."""

from __future__ import annotations

import pytest
from firnline_domain.records.signing import Keyring, SignatureRefused, SigningKey
from firnline_iceberg.outputs.signed_file import sign_body, verify_body

KEYS = Keyring((SigningKey("k", b"k" * 32),))
PATH, BODY = "s3://b/t/metadata/firnline-1.json", b'{"outputs": []}'


def test_what_was_signed_is_read_by_any_spelling_of_its_folder() -> None:
    content = sign_body(KEYS, PATH, BODY, 5)
    assert verify_body(KEYS, PATH, content) == BODY
    assert verify_body(KEYS, PATH.replace("s3:", "s3a:"), content) == BODY
    assert verify_body(Keyring(), PATH, content) == BODY
    assert verify_body(Keyring(), PATH, sign_body(Keyring(), PATH, BODY, 5)) == BODY


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (BODY, "unsigned"),
        (b"", "unsigned"),
        (BODY + b"\n#signed k", "unsigned"),
        (BODY + b"\n#signed k 5 zz", "unsigned"),
        (BODY + b"\n#signed k 5 " + b"00" * 32, "bad_signature"),
        (BODY + b"\n#signed \xff 5 00", "unsigned"),
        (sign_body(KEYS, PATH, BODY, 5).replace(b"[]", b"[1]"), "bad_signature"),
        (sign_body(KEYS, "s3://b/t/metadata/firnline-2.json", BODY, 5), "bad_signature"),
        (sign_body(Keyring((SigningKey("x", b"x" * 32),)), PATH, BODY, 5), "unknown_key"),
        (sign_body(KEYS, PATH, BODY, 5) + b"\n#signed k 5 00", "bad_signature"),
    ],
)
def test_anything_else_is_refused(content: bytes, reason: str) -> None:
    with pytest.raises(SignatureRefused) as refused:
        verify_body(KEYS, PATH, content)
    assert refused.value.reason == reason
