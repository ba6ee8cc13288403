"""Values of configuration files that stand elsewhere: `${VARIABLE}` and `file:/path`."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

_REFERENCE = re.compile(r"\$\{(\w+)\}")


class Unresolved(ValueError):
    """A reference that leads nowhere; the text says why, and never a value."""


def resolve_reference(value: str, environment: Mapping[str, str]) -> str:
    """Return the value that `${VARIABLE}` or `file:/path` stands for. Raises Unresolved."""
    if value.startswith("file:"):
        path = "/" + value.removeprefix("file:").lstrip("/")
        try:
            return Path(path).read_text().strip()
        except (OSError, UnicodeDecodeError) as error:
            raise Unresolved(f"cannot read the file: {error}") from None
    return expand_variables(value, environment)


def expand_variables(value: str, environment: Mapping[str, str]) -> str:
    """Return the value with its variables; `file:` is a place here and stays. Raises Unresolved."""
    try:
        return _REFERENCE.sub(lambda found: environment[found[1]], value)
    except KeyError as error:
        raise Unresolved(f"environment variable {error.args[0]} is not set") from None
