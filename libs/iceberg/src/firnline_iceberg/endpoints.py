"""Where a catalog is, apart from who asks it.

A URI ends up in error texts, in Spark's settings and on command lines, and Java's clients refuse
one that names a user. So who asks goes into a header.
"""

from __future__ import annotations

import base64
from urllib.parse import unquote, urlsplit


def endpoint(uri: str) -> tuple[str, dict[str, str]]:
    """The URI without user and password, and the catalog properties that say them instead."""
    parts = urlsplit(uri)
    user, _, host = parts.netloc.rpartition("@")
    if not user:
        return uri, {}
    word = base64.b64encode(unquote(user).encode()).decode()
    return parts._replace(netloc=host).geturl(), {"header.Authorization": f"Basic {word}"}
