"""The Java that runs the broker, the catalog and Spark: found, and new enough."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from functools import lru_cache
from pathlib import Path

OLDEST = 17  # Spark 4.1 and Kafka 4.1 brokers refuse anything older


class JavaMissing(RuntimeError):
    """No usable Java: install a runtime of version 17 or newer, or set JAVA_HOME."""


@lru_cache(maxsize=1)
def find_java() -> str:
    """Return the path of `find_java`: JAVA_HOME's, else the first on PATH. A runtime (JRE) is
    enough. Raises JavaMissing with what was found and what is needed."""
    found = _java_path()
    if found is None:
        raise JavaMissing(f"Java {OLDEST} or newer is needed; none found in JAVA_HOME or on PATH")
    version = _major_version(found)
    if version < OLDEST:
        raise JavaMissing(f"Java {OLDEST} or newer is needed; {found} is version {version}")
    return found


def _java_path() -> str | None:
    home = os.environ.get("JAVA_HOME")
    if home and (path := Path(home, "bin", "java")).exists():
        return str(path)
    return shutil.which("java")


def _major_version(path: str) -> int:
    """Return the first number of `java -version`; Java 8 calls itself 1.8."""
    answer = subprocess.run([path, "-version"], capture_output=True, text=True, timeout=60)
    match = re.search(r'version "(?:1\.)?(\d+)', answer.stderr + answer.stdout)
    if match is None:
        raise JavaMissing(f"{path} -version says nothing we understand: {answer.stderr.strip()}")
    return int(match.group(1))
