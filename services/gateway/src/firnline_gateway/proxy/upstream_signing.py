"""Signatures on what is passed on to a catalog that wants them (AWS Signature Version 4).

A signature is of the host's name and of the body, so a caller's own would be worth nothing at the
catalog: it is taken off, and the gateway's put on (decision 0033).
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from firnline_iceberg.connection.auth import CatalogIdentity
from multidict import CIMultiDict


class RequestSigner:
    """Signs as one identity."""

    def __init__(self, identity: CatalogIdentity) -> None:
        self._identity = identity

    async def sign_headers(
        self, method: str, url: str, headers: Mapping[str, str], body: bytes | None
    ) -> CIMultiDict[str]:
        """Return the headers to send. Signs in a thread: the keys of a pod may have to be fetched.
        Raises CatalogRefused if there are none."""
        found = CIMultiDict((n, one) for n, one in headers.items() if not _is_signature(n))
        found.update(await asyncio.to_thread(self._identity.auth_headers, method, url, body))
        return found


def _is_signature(name: str) -> bool:
    return name.lower() == "authorization" or name.lower().startswith("x-amz-")
