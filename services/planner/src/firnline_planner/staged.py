"""What one bucket's state will hold of a key, as long as that is not final yet."""

from __future__ import annotations

from dataclasses import dataclass

from firnline_domain.assignments import Route
from firnline_domain.fleet_share import FleetShare
from firnline_domain.holds import Pause
from firnline_domain.progress import Partition, Table


@dataclass(frozen=True)
class Switch:
    """A pause as it stands in the state: pulled, or let go."""

    pause: Pause | None


Value = Table | Partition | FleetShare | Switch | Route | bytes | int | None  # None = deleted
Staged = dict[bytes, Value]
