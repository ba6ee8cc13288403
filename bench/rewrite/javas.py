"""Java runtimes of this machine, beside the one that Spark runs on."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterable, Iterator
from pathlib import Path

FOLDER = Path("/usr/lib/jvm")


def oldest_from(major: int, homes: Iterable[Path]) -> Path | None:
    """`java` of the lowest version that is `major` or higher; None where no home has one."""
    versions = {home: _major(home) for home in homes}
    enough = {home: found for home, found in versions.items() if found >= major}
    return min(enough, key=lambda home: enough[home]) / "bin" / "java" if enough else None


def homes() -> Iterator[Path]:
    """JAVA_HOME, that of `java` on PATH, and what distributions install."""
    if given := os.environ.get("JAVA_HOME"):
        yield Path(given)
    if on_path := shutil.which("java"):
        yield Path(on_path).resolve().parents[1]
    if FOLDER.is_dir():
        yield from sorted(FOLDER.iterdir())


def _major(home: Path) -> int:
    """From the `release` file that every runtime since Java 9 carries; 0 where there is none."""
    try:
        text = (home / "release").read_text()
    except OSError:
        return 0
    found = re.search(r'^JAVA_VERSION="(\d+)', text, re.MULTILINE)
    return int(found.group(1)) if found and (home / "bin" / "java").exists() else 0
