"""Jars of the embedded stack, pinned by version and SHA-256 in the lock files beside this module.

A lock line is `sha256  group/path/artifact/version/file.jar`. Files land in a cache by that same
path, so two stacks of one machine share them.
"""

from __future__ import annotations

import hashlib
import os
import urllib.request
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path

from firnline_local.servers.repository import repository_root

JAR_SETS = ("kafka", "catalog", "iceberg")  # of the stack; `bundles` are for `firnline jars`
PARALLEL = 8  # 46 small jars came in 1.9 s with 8 threads
TIMEOUT_S = 120.0
TRIES = 3  # a registry behind a proxy drops a connection now and then

Progress = Callable[[str, int, int], None]
"""Called with (file name, files done, files to fetch) after each download."""


class RepositoryAway(RuntimeError):
    """The repository did not answer; set FIRNLINE_MAVEN_ROOT to one that is reachable."""


class BadArtifact(RuntimeError):
    """A downloaded file is not the one the lock pins; nothing was kept."""


@dataclass(frozen=True)
class PinnedArtifact:
    """One line of a lock file."""

    sha256: str
    path: str

    @property
    def file_name(self) -> str:
        return self.path.rsplit("/", 1)[1]


def read_pins(jar_set: str) -> tuple[PinnedArtifact, ...]:
    """Read the lock file of one of JAR_SETS."""
    text = files("firnline_local").joinpath(f"{jar_set}.lock").read_text()
    return tuple(PinnedArtifact(*line.split()) for line in text.splitlines())


def cache_root() -> Path:
    """Return the cache below XDG_CACHE_HOME, else below ~/.cache."""
    given = os.environ.get("XDG_CACHE_HOME")
    return (Path(given) if given else Path.home() / ".cache") / "firnline" / "artifacts"


def fetch_jars(jar_set: str, progress: Progress | None = None) -> tuple[Path, ...]:
    """Return the verified paths of every jar of a set, in lock order; fetches what is missing or
    damaged. Raises BadArtifact if a download has another hash, RepositoryAway if none arrived."""
    return fetch_pins(read_pins(jar_set), cache_root(), repository_root, progress)


def fetch_all(progress: Progress | None = None) -> None:
    """Fetch every set into the cache (171 MB, 7 s cold), so that later starts need no network."""
    for jar_set in JAR_SETS:
        fetch_jars(jar_set, progress)


def join_class_path(jar_set: str) -> str:
    """Return the set as a Java class path."""
    return os.pathsep.join(str(path) for path in fetch_jars(jar_set))


def iceberg_jar() -> Path:
    """Return the iceberg-spark-runtime jar that Spark and the committer's JVM load."""
    return fetch_jars("iceberg")[0]


def aws_bundle() -> Path:
    """Return the jar with S3 for Iceberg's Java client (69 MB): it is fetched only if it is
    needed."""
    return fetch_jars("aws")[0]


def fetch_pins(
    wanted: Iterable[PinnedArtifact],
    cache: Path,
    root: Callable[[], str],
    progress: Progress | None = None,
) -> tuple[Path, ...]:
    """Return the verified paths of any pins, as `fetch_jars` does. `root` is called only if
    something has to be fetched."""
    wanted = tuple(wanted)
    with ThreadPoolExecutor(PARALLEL) as pool:
        good = pool.map(lambda pin: _has_hash(cache / pin.path, pin.sha256), wanted)
        missing = [pin for pin, ok in zip(wanted, good, strict=True) if not ok]
        if missing:
            base = root()
            fetched = pool.map(lambda pin: _fetch_verified(pin, base, cache), missing)
            for done, pin in enumerate(fetched, start=1):
                if progress is not None:
                    progress(pin.file_name, done, len(missing))
    return tuple(cache / pin.path for pin in wanted)


def _has_hash(path: Path, sha256: str) -> bool:
    if not path.is_file():
        return False
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest() == sha256


def _download(url: str, tries_left: int = TRIES) -> bytes:
    try:
        with urllib.request.urlopen(url, timeout=TIMEOUT_S) as answer:
            body: bytes = answer.read()
            return body
    except OSError as error:  # URLError, a reset connection, a timeout
        if tries_left > 1:
            return _download(url, tries_left - 1)
        raise RepositoryAway(f"{url}: {error}; FIRNLINE_MAVEN_ROOT names another") from None


def _fetch_verified(pin: PinnedArtifact, base: str, cache: Path) -> PinnedArtifact:
    body = _download(base + pin.path)
    found = hashlib.sha256(body).hexdigest()
    if found != pin.sha256:
        raise BadArtifact(f"{pin.path}: the lock says {pin.sha256}, the repository sent {found}")
    target = cache / pin.path
    target.parent.mkdir(parents=True, exist_ok=True)
    # Renamed whole, so a reader never sees half a jar; the pid keeps two fetchers apart.
    part = target.with_name(f"{target.name}.{os.getpid()}.part")
    part.write_bytes(body)
    part.replace(target)
    return pin
