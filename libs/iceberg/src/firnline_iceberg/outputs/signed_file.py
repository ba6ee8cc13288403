"""Small files beside a table's metadata that only the fleet may have written: the body, and behind
it one line with its signature.

Whoever writes into the table can write a file there as well, and move one that we wrote to another
name or table. So the file's own name is signed with it; its body says which table it is of.
"""

from __future__ import annotations

from firnline_domain.records.signing import UNSIGNED, Keyring, Signature, SignatureRefused

from firnline_iceberg.storage.paths import file_name

PURPOSE = b"file"
_MARK = b"\n#signed "


def sign_body(keys: Keyring, path: str, body: bytes, at_ms: int) -> bytes:
    """Return what to write to `path`: the body alone where signing is off."""
    signature = keys.sign(at_ms, PURPOSE, _file_name(path), body)
    if signature is None:
        return body
    line = f"{signature.key_id} {signature.at_ms} {signature.mac.hex()}"
    return body + _MARK + line.encode()


def verify_body(keys: Keyring, path: str, content: bytes) -> bytes:
    """Return the body of what was read from `path`, of any age. Raises SignatureRefused."""
    body, _, line = content.rpartition(_MARK)
    if not keys.is_signing:
        return body or content
    if not body:
        raise SignatureRefused(UNSIGNED, f"{path} has no signature of this deployment")
    signature = _parse_signature(path, line)
    keys.verify_parts(signature, signature.at_ms, None, PURPOSE, _file_name(path), body)
    return body


def _parse_signature(path: str, line: bytes) -> Signature:
    try:
        key_id, at_ms, mac = line.decode().split(" ")
        return Signature(key_id, int(at_ms), bytes.fromhex(mac))
    except ValueError as error:
        raise SignatureRefused(UNSIGNED, f"{path} ends with no signature") from error


def _file_name(path: str) -> bytes:
    """Return the name without its folder, which may be spelled in more than one way."""
    return file_name(path).encode()
