"""A service's state directory: there, and its user may write."""

from __future__ import annotations

import tempfile
from pathlib import Path

from firnline_domain.errors import Misconfigured

from firnline_adapters.config.fleet_settings import STATE_DIR


def require_state_dir(place: str) -> Path:
    """Return the directory, creating it if it is missing. Raises Misconfigured if it is not
    writable."""
    path = Path(place)
    try:
        path.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=path) as file:
            file.write(b"x")
    except OSError as error:
        raise Misconfigured(
            f"{STATE_DIR.variable}={place}: {error.strerror or error}: it names a folder, of each "
            "service its own, on a disk that its user can write"
        ) from None
    return path
