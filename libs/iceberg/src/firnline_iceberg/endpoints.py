"""Where a catalog is, apart from who asks it.

A URI ends up in error texts, in Spark's settings and on command lines, and Java's clients refuse
one that names a user. So who asks goes into a header; and that it is one of Firnline's services
into another, for a gateway that counts who reads a table.
"""

from __future__ import annotations

import base64
from urllib.parse import unquote, urlsplit

from firnline_domain.commits.table_loads import MARK


def endpoint(uri: str) -> tuple[str, dict[str, str]]:
    """The URI without user and password, and the catalog properties that say them instead."""
    parts = urlsplit(uri)
    user, _, host = parts.netloc.rpartition("@")
    if not user:
        return uri, dict(MARK)
    word = base64.b64encode(unquote(user).encode()).decode()
    who = {**MARK, "header.Authorization": f"Basic {word}"}
    return parts._replace(netloc=host).geturl(), who
