"""The archive of the driver's classes is that of one Java and one set of jars."""

from __future__ import annotations

from pathlib import Path

from firnline_worker.jvm import archive_options, archive_path
from firnline_worker.settings import Settings


def settings(folder: Path, jar: Path) -> Settings:
    return Settings(kafka="", redis="", catalog_uri="", iceberg_jar=str(jar), state_dir=str(folder))


def test_an_archive_is_used_once_it_is_there(tmp_path: Path) -> None:
    mine = settings(tmp_path, tmp_path / "iceberg.jar")
    assert archive_options(mine) == []
    archive_path(mine).touch()
    assert archive_options(mine)[0] == f"-XX:SharedArchiveFile={archive_path(mine)}"


def test_another_jar_needs_another_archive(tmp_path: Path) -> None:
    jar = tmp_path / "iceberg.jar"
    mine = settings(tmp_path, jar)
    jar.write_bytes(b"1")
    archive_path(mine).touch()
    jar.write_bytes(b"22")
    assert archive_options(mine) == []
