"""Read from the console how many workers the open tasks require."""

from __future__ import annotations

import json
from collections.abc import Collection
from http.client import HTTPException
from typing import Any
from urllib.parse import urlencode
from urllib.request import ProxyHandler, build_opener

from firnline_domain.errors import RetryLater
from firnline_domain.policy.fleet.lanes import Lane

TIMEOUT_S = 2.0
# Never through a proxy: the console is on loopback, or in the same cluster.
_open = build_opener(ProxyHandler({})).open


def read_wanted(uri: str, group: str, lanes: Collection[Lane], cores: int, drain_s: int) -> int:
    """Return the number of workers with so many cores that complete the open tasks of these queues
    within `drain_s`. Raises RetryLater if the console does not say."""
    query = urlencode({"cores": cores, "drain_seconds": drain_s})
    try:
        with _open(f"{uri}/api/workers?{query}", timeout=TIMEOUT_S) as answer:
            demand: Any = json.load(answer)
        of_group = demand["groups"][group] if group else demand
        queue = "both" if len(lanes) > 1 else next(iter(lanes))
        return int(of_group[queue]["wanted"])
    except (OSError, HTTPException, ValueError, KeyError, TypeError) as error:
        raise RetryLater(f"{uri}/api/workers does not return a number: {error!r}") from None
