"""Storage that is away, and storage that does not let us: Arrow has no classes for it."""

from __future__ import annotations

import re

from firnline_domain.errors import StorageRefused, StorageUnreachable

_DENIED = re.compile(
    r"ACCESS_DENIED|INVALID_ACCESS_KEY|InvalidAccessKeyId|INVALID_CLIENT_TOKEN|INVALID_SIGNATURE"
    r"|SIGNATURE_DOES_NOT|EXPIRED_TOKEN|ExpiredToken|UNRECOGNIZED_CLIENT|MISSING_AUTH"
    r"|AuthenticationFailed|AuthorizationFailure|Unauthenticated|PERMISSION_DENIED"
    r"|UNAUTHENTICATED|(?:status|code):? ?40[13]\b"
)
_BUCKET = re.compile(r"bucket '[^']*'")


def is_denied(error: OSError) -> bool:
    """Return True if the storage refuses our keys, or what they may do."""
    return isinstance(error, PermissionError) or bool(_DENIED.search(str(error)))


def storage_error(what: str, error: OSError) -> StorageUnreachable | StorageRefused:
    """Return the error for what storage has answered to `what`."""
    text = f"{what}: {error}"
    if is_denied(error):
        bucket = _BUCKET.search(text)
        return StorageRefused(f"{text}; give our keys this right", bucket[0] if bucket else what)
    return StorageUnreachable(text)
