"""Keys to a table's storage that its catalog hands out, which end, and how others are had.

They are a value that travels: driver, executors and committer each ask the catalog again before the
keys end, once for all threads of a process. The end is what the catalog says; where it says none,
keys are taken to end at any time, and asked for again when the storage refuses them.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from cachetools import LRUCache
from firnline_adapters.config.redaction import mask_secrets

from firnline_iceberg.connection.connection import CatalogConnection

LONG_S: Final = 600.0  # a file of a gigabyte is read or written by then: such keys need no care
AGAIN_S: Final = 1.0  # keys this young that are refused are not too old
_ENDS = ("s3.session-token-expires-at-ms", "gcs.oauth2.token-expires-at", "expiration-time")
_ENDS_OF_AZURE = "adls.sas-token-expires-at-ms"
_KEYS = ("s3.access-key-id", "s3.secret-access-key", "s3.session-token", "gcs.oauth2.token")


@dataclass(frozen=True)
class Credential:
    """Properties of a FileIO for whatever begins with `prefix`."""

    prefix: str
    config: Mapping[str, str] = field(repr=False)
    got_s: float = 0.0

    @property
    def ends_s(self) -> float | None:
        """Return when the credential expires, in seconds since 1970; None: it has no time."""
        for name, value in self.config.items():
            if name in _ENDS or name.startswith(_ENDS_OF_AZURE):
                return float(value) / 1000
        return None

    @property
    def has_keys(self) -> bool:
        """Return True if the credential contains keys or tokens, which end."""
        return any(one in _KEYS or one.startswith("adls.sas-token") for one in self.config)

    def is_due(self, now_s: float) -> bool:
        """Return True if others should be requested now: at half of a short life, before the last
        minutes of a long one."""
        ends_s = self.ends_s
        if ends_s is None:
            return False
        known_s = max(ends_s - self.got_s, 0.0)  # 0: a clock that was set back since
        return ends_s - now_s <= min(LONG_S, known_s / 2)

    def is_lasting(self, now_s: float) -> bool:
        """Return True if a file that is opened now can be read or written to its end."""
        return self.ends_s is not None and self.ends_s - now_s >= LONG_S


Credentials = tuple[Credential, ...]


def credentials_of(
    config: Mapping[str, str],
    storage_credentials: Sequence[tuple[str, Mapping[str, str]]],
    now_s: float,
) -> Credentials:
    """Return the credentials of an answer: `storage-credentials` come before `config`, as the
    specification has it."""
    found = [Credential(prefix, dict(one), now_s) for prefix, one in storage_credentials]
    for one in (*found, plain := Credential("", dict(config), now_s)):
        mask_secrets(
            value for name, value in one.config.items() if name in _KEYS or "sas-token" in name
        )
    return tuple(found) or ((plain,) if plain.has_keys else ())


def best_credential(credentials: Credentials, location: str) -> Credential | None:
    """Return the credential of the longest prefix; one spelling of S3 for all."""
    place = _spell(location)
    fits = [one for one in credentials if place.startswith(_spell(one.prefix))]
    return max(fits, key=lambda one: len(one.prefix), default=None)


def _spell(location: str) -> str:
    for scheme in ("s3a://", "s3n://"):
        if location.startswith(scheme):
            return "s3://" + location.removeprefix(scheme)
    return location


Ask = Callable[[CatalogConnection, Mapping[str, str], tuple[str, ...]], Credentials]


@dataclass(frozen=True)
class VendedCredentials:
    """The keys of one table as they came with it, and of whom others are had. `identifier`: its
    namespace and name; `properties`: further ones of the catalog's client; `ask`: a function of a
    module, which travels by its name."""

    connection: CatalogConnection
    properties: Mapping[str, str]
    identifier: tuple[str, ...]
    first: Credentials = field(repr=False)
    ask: Ask = field(repr=False)

    def credential_for(self, location: str, refused: Credential | None = None) -> Credential | None:
        """Return what opens `location` now; None: the catalog has nothing for it. `refused`: by the
        storage. Raises RetryLater if the catalog does not answer, and what we have has ended."""
        held = _held_credentials(self)
        now_s = time.time()
        with held.lock:
            if held.got_s < max((one.got_s for one in self.first), default=0.0):
                held.take_credentials(self.first)
            known = best_credential(held.credentials, location)
            if known is None or not (known.is_due(now_s) or _may_be_renewed(known, refused, now_s)):
                return known
            try:
                held.take_credentials(self.ask(self.connection, self.properties, self.identifier))
            except Exception:
                if known.ends_s is None or known.ends_s <= time.time():
                    raise
            return best_credential(held.credentials, location) or known


def _may_be_renewed(known: Credential, refused: Credential | None, now_s: float) -> bool:
    """Return True if the storage has refused the credential that we have, and we got it more than
    AGAIN_S ago."""
    return known is refused and not 0 <= now_s - known.got_s <= AGAIN_S


@dataclass
class _HeldCredentials:
    credentials: Credentials = ()
    got_s: float = 0.0
    lock: threading.Lock = field(default_factory=threading.Lock)

    def take_credentials(self, credentials: Credentials) -> None:
        if credentials:
            self.credentials = credentials
            self.got_s = max(one.got_s for one in credentials)


_MOST = 4096  # tables of a process
_known: LRUCache[tuple[Any, ...], _HeldCredentials] = LRUCache(_MOST)
_lock = threading.Lock()


def _held_credentials(vended: VendedCredentials) -> _HeldCredentials:
    key = (*vended.connection.place, *vended.identifier)
    with _lock:
        if key not in _known:
            _known[key] = _HeldCredentials()
        return _known[key]
