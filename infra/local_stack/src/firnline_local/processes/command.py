"""The command that starts one part of the stack: a value that the supervisor and tests use
alike."""

from __future__ import annotations

import signal
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

Probe = Callable[[], bool]
"""True once the part serves. Called every 0.1 s, so it answers within about a second."""


def prepare_nothing() -> None:
    """Prepare nothing, for a part that needs no preparation."""


@dataclass(frozen=True)
class Command:
    """One process of the stack."""

    name: str
    argv: tuple[str, ...]
    cwd: Path
    """Made if it is missing."""
    ready: Probe
    env: Mapping[str, str] = field(default_factory=dict)
    """Added to the environment of whoever starts it."""
    prepare: Callable[[], None] = prepare_nothing
    """Run before every start; must be repeatable. Formats the broker's disk, writes configs."""
    stop_signal: int = signal.SIGTERM
