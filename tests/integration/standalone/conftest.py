"""`firnline run` as a process."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable

import pytest

Run = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def environment(catalog_uri: str) -> dict[str, str]:
    """Nothing of this process's but what Java and Python need."""
    kept = ("PATH", "HOME", "JAVA_HOME", "JAVA_TOOL_OPTIONS", "XDG_CACHE_HOME", "PYTHONPATH")
    found = {name: os.environ[name] for name in kept if name in os.environ}
    return {**found, "FIRNLINE_CATALOG_URI": catalog_uri}


@pytest.fixture
def firnline(environment: dict[str, str]) -> Run:
    """A command, to its end."""

    def run(*words: str, **more: str) -> subprocess.CompletedProcess[str]:
        argv = [sys.executable, "-m", "firnline_cli", *words]
        given = {**environment, **more}
        return subprocess.run(argv, capture_output=True, text=True, env=given, timeout=250)

    return run


@pytest.fixture
def begun(environment: dict[str, str]) -> Callable[..., subprocess.Popen[str]]:
    """A command that goes on."""

    def begin(*words: str, **more: str) -> subprocess.Popen[str]:
        argv = [sys.executable, "-m", "firnline_cli", *words]
        pipe, given = subprocess.PIPE, {**environment, **more}
        return subprocess.Popen(argv, stdout=pipe, stderr=pipe, text=True, env=given)

    return begin
