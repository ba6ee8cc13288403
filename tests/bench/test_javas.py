"""A Java that is new enough, by the file that each runtime carries."""

from __future__ import annotations

import pytest

from bench.rewrite.javas import homes, oldest_from


@pytest.fixture
def runtime(tmp_path):
    def made(name, version, with_java=True):
        home = tmp_path / name
        (home / "bin").mkdir(parents=True)
        (home / "release").write_text(f'IMPLEMENTOR="X"\nJAVA_VERSION="{version}"\n')
        if with_java:
            (home / "bin" / "java").touch()
        return home

    return made


def test_the_lowest_that_is_enough(runtime):
    given = [runtime("a", "17.0.15"), runtime("b", "26"), runtime("c", "25.0.3")]
    assert oldest_from(24, given) == given[2] / "bin" / "java"


def test_none_is_new_enough(runtime):
    assert oldest_from(24, [runtime("a", "17.0.15"), runtime("b", "1.8.0_402")]) is None


def test_a_folder_that_is_no_runtime(runtime, tmp_path):
    assert oldest_from(17, [tmp_path / "away", runtime("a", "25", with_java=False)]) is None


def test_java_home_comes_first(monkeypatch, tmp_path):
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    assert next(iter(homes())) == tmp_path
