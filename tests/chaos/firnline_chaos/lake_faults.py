"""Faults of a lake that asks who one is. Without such a lake there is nothing to strike."""

from __future__ import annotations

import random
from dataclasses import dataclass

from firnline_chaos.ground import Ground
from firnline_chaos.lake import SecuredLake
from firnline_chaos.missed import Missed
from firnline_chaos.plan import Blow

SHARES = (0.3, 0.9)  # of requests: what clients' own tries get over, and what they do not


def lake_of(ground: Ground) -> SecuredLake:
    """Raises Missed."""
    if ground.lake is None:
        raise Missed("the embedded catalog asks nobody who he is")
    return ground.lake


@dataclass
class EndKeys:
    """All keys to the store that were handed out end now, long before their time."""

    ground: Ground
    blow: Blow

    def begin(self) -> None:
        store = lake_of(self.ground).storage.server
        if not store.alive:
            raise Missed("nobody has keys")
        try:
            store.drop_all()
        except OSError as error:
            raise Missed(f"no store: {error}") from error

    def end(self) -> None:
        pass


@dataclass
class RevokeTokens:
    """No token that the catalog gave counts any more."""

    ground: Ground
    blow: Blow

    def begin(self) -> None:
        lake_of(self.ground).doors.revoke_tokens()

    def end(self) -> None:
        pass


@dataclass
class Throttle:
    """The store answers a share of all requests with 503 SlowDown."""

    ground: Ground
    blow: Blow

    def begin(self) -> None:
        slow = lake_of(self.ground).storage.slow
        slow.share = random.Random(self.blow.dice).choice(SHARES)

    def end(self) -> None:
        lake_of(self.ground).storage.slow.share = 0.0


@dataclass
class Forbid:
    """The catalog says 403 to our services, for all tables; writers go on."""

    ground: Ground
    blow: Blow

    def begin(self) -> None:
        lake_of(self.ground).doors.forbid()

    def end(self) -> None:
        lake_of(self.ground).doors.allow()
