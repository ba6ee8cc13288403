"""Pinned jars: fetched once, verified always (issue 3, item 2)."""

from __future__ import annotations

import hashlib
import re
from pathlib import Path

import pytest
from firnline_local.servers.artifacts import (
    JAR_SETS,
    BadArtifact,
    PinnedArtifact,
    RepositoryAway,
    fetch_pins,
    read_pins,
)

BODY = b"jar"
SHA = hashlib.sha256(BODY).hexdigest()
PIN = PinnedArtifact(SHA, "g/a/1/a-1.jar")


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    jar = tmp_path / "repository" / PIN.path
    jar.parent.mkdir(parents=True)
    jar.write_bytes(BODY)
    return tmp_path / "repository"


def root_of(repository: Path) -> str:
    return repository.as_uri() + "/"


def test_a_missing_jar_is_fetched_and_reported(repository: Path, tmp_path: Path) -> None:
    seen: list[tuple[str, int, int]] = []
    (path,) = fetch_pins(
        [PIN], tmp_path / "cache", lambda: root_of(repository), lambda *step: seen.append(step)
    )
    assert path.read_bytes() == BODY
    assert seen == [("a-1.jar", 1, 1)]


def test_a_cached_jar_needs_no_repository(repository: Path, tmp_path: Path) -> None:
    fetch_pins([PIN], tmp_path / "cache", lambda: root_of(repository))
    fetch_pins([PIN], tmp_path / "cache", lambda: pytest.fail("asked for a repository"))


def test_a_damaged_jar_is_fetched_again(repository: Path, tmp_path: Path) -> None:
    (path,) = fetch_pins([PIN], tmp_path / "cache", lambda: root_of(repository))
    path.write_bytes(b"jax")
    fetch_pins([PIN], tmp_path / "cache", lambda: root_of(repository))
    assert path.read_bytes() == BODY


def test_another_hash_is_refused_and_nothing_is_kept(repository: Path, tmp_path: Path) -> None:
    wrong = PinnedArtifact("0" * 64, PIN.path)
    with pytest.raises(BadArtifact, match=f"{'0' * 64}.*{SHA}"):
        fetch_pins([wrong], tmp_path / "cache", lambda: root_of(repository))
    assert [path for path in (tmp_path / "cache").rglob("*") if path.is_file()] == []


def test_a_repository_that_is_away_is_said_with_the_way_out(tmp_path: Path) -> None:
    with pytest.raises(RepositoryAway, match=r"a-1\.jar: .*FIRNLINE_MAVEN_ROOT"):
        fetch_pins([PIN], tmp_path / "cache", lambda: root_of(tmp_path / "nothing"))


@pytest.mark.parametrize("jar_set", JAR_SETS)
def test_locks_pin_a_hash_and_a_version_for_each_jar(jar_set: str) -> None:
    assert read_pins(jar_set)
    for pin in read_pins(jar_set):
        assert re.fullmatch(r"[0-9a-f]{64}", pin.sha256)
        *_, artifact, version, file = pin.path.split("/")
        assert file.startswith(f"{artifact}-{version}")
