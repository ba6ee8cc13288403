"""Policies of `firnline.toml`: what is wrong with them, and how they are read again."""

from __future__ import annotations

import logging
import os
from dataclasses import dataclass
from pathlib import Path

import pytest
from firnline_adapters import policy_file
from firnline_adapters.config.config_file import read_config
from firnline_adapters.observability.logs import Log
from firnline_adapters.policy_file import PolicyFile, read_policies
from firnline_domain.errors import Misconfigured
from firnline_domain.identity import TableName
from firnline_domain.settings.table_rules import TableRule

TABLE = TableName("u", ("web",), "events_raw")
KEY = "policy:lake.*.events_*:firnline.retain.hours"
VALID = '[[policies]]\nmatch = "lake.*.events_*"\n"firnline.retain.hours" = 48\n'


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "firnline.toml"


@dataclass
class Watched:
    """The file of a planner, and the time that passes for it."""

    path: Path
    now_s: float = 0.0

    def open_file(self, text: str) -> PolicyFile:
        self.path.write_text(text)
        return PolicyFile(str(self.path), Log("test"))

    def hours_after(self, file: PolicyFile, seconds: float) -> str | None:
        """Return what the file sets for the table, checked every second until then."""
        for _ in range(int(seconds)):
            self.now_s += 1.0
            file.read_current()
        return file.read_current().with_policies(TABLE, {}).get(KEY)


@pytest.fixture
def watched(path: Path, monkeypatch: pytest.MonkeyPatch) -> Watched:
    found = Watched(path)
    monkeypatch.setattr(policy_file, "monotonic", lambda: found.now_s)
    return found


def test_a_policy_is_read_and_every_service_accepts_its_section(path: Path) -> None:
    path.write_text(VALID)
    assert read_config(str(path)) is not None
    found = read_policies(str(path))
    assert (found.problems, found.warnings) == ((), ())
    assert found.policies.with_policies(TABLE, {}) == {KEY: "48"}


def test_each_problem_names_file_policy_and_property(path: Path) -> None:
    path.write_text(
        VALID
        + '[[policies]]\nmatch = "lake.*.*"\nfirnline.enabled = "maybe"\nfirnline.windw = "x"\n'
        + '[[policies]]\nmatch = "orders"\n[[policies]]\n"firnline.shadow" = true\n'
        + '[[policies]]\nmatch = "**"\n"gc.enabled" = false\n"firnline.group" = ["a"]\ncolor = 1\n'
    )
    found = read_policies(str(path))
    assert [one.removeprefix(f"{path}: ") for one in found.problems] == [
        "policy 2 (lake.*.*): firnline.enabled: 'maybe' cannot be read: write a true or false",
        "policy 3 (orders): match: 'orders' matches no table: write catalog.namespace.table",
        'policy 4: match: write match = "catalog.namespace.table"',
        "policy 5 (**): gc.enabled: a policy cannot set it: set it on each table, or use a "
        "property of firnline.*",
        "policy 5 (**): firnline.group: write a text, a number, true or false",
    ]
    assert [one.removeprefix(f"{path}: ") for one in found.warnings] == [
        "policy 2 (lake.*.*): firnline.windw is no setting: firnline.window is meant?",
        "policy 5 (**): color is no property of Firnline: remove it",
    ]
    assert found.policies.with_policies(TABLE, {})[KEY] == "48"


def test_each_problem_of_a_rule_names_it_and_what_to_write(path: Path) -> None:
    path.write_text(
        '[[rules]]\nmatch = "lake.**"\nrequire = {"owner" = "*"}\nabout = 1\n'
        '[[rules]]\nmatch = "orders"\nforbid = {"sort-order" = "*"}\n'
        '[[rules]]\nmatch = "**"\ncolor = 1\nrequire = "owner"\n'
        '[[rules]]\nmatch = "**"\nforbid = {"firnline.srt" = "1", "a" = "9..1", "b" = []}\n'
    )
    found = read_policies(str(path))
    assert [one.removeprefix(f"{path}: rule ") for one in found.problems] == [
        "1 (lake.**): about: write a text",
        "2 (orders): match: 'orders' matches no table: write catalog.namespace.table",
        "3 (**): color: a rule has match, about, require and forbid",
        '3 (**): require: write require = {"NAME" = "VALUE"}',
        "3 (**): write what it is to require or to forbid",
        "4 (**): forbid: firnline.srt: firnline.srt is no setting: firnline.sort is meant?",
        "4 (**): forbid: a: '9..1' is no range: write 24..168, 24.. or ..168",
        "4 (**): forbid b: write a text, a number, true or false",
        "4 (**): write what it is to require or to forbid",
    ]
    [rule] = [one for one in found.policies.rules_of(TABLE) if one.required]
    assert rule == TableRule("lake.**", (("owner", "*"),), (), "1")


@pytest.mark.parametrize("text", ["policies = 1", '[policies]\nmatch = "**"', "policies = [1]"])
def test_another_shape_is_a_problem_of_the_policies_only(path: Path, text: str) -> None:
    path.write_text(text)
    assert read_config(str(path)) is not None
    [problem] = read_policies(str(path)).problems
    assert problem == f"{path}: policies: write [[policies]] above each policy"


def test_a_changed_file_is_read_again_without_a_restart(watched: Watched) -> None:
    file = watched.open_file(VALID)
    before = file.read_current()
    watched.path.write_text(VALID.replace("48", "24"))
    assert watched.hours_after(file, 5) == "24"
    assert before.with_policies(TABLE, {}) == {KEY: "48"}
    assert file.read_current() is file.read_current()


@pytest.mark.parametrize("half", ["", VALID.splitlines()[0] + '\nmatch = "other.**"\n'])
def test_a_file_that_is_written_slowly_is_read_once_it_is_whole(
    watched: Watched, half: str
) -> None:
    file = watched.open_file(VALID)
    for number in range(5):
        watched.path.write_text(half + "#" * number)
        assert watched.hours_after(file, 2) == "48"
    watched.path.write_text(VALID.replace("48", "24"))
    assert watched.hours_after(file, 5) == "24"


def test_a_file_that_changes_while_it_is_read_is_read_again(
    watched: Watched, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = watched.open_file(VALID)

    def read_slowly(path: str) -> policy_file.ReadPolicies:
        read = read_policies(path)
        monkeypatch.undo()
        monkeypatch.setattr(policy_file, "monotonic", lambda: watched.now_s)
        watched.path.write_text(VALID.replace("48", "24"))
        return read

    watched.path.write_text("")
    monkeypatch.setattr(policy_file, "read_policies", read_slowly)
    assert watched.hours_after(file, 4) == "48"
    assert watched.hours_after(file, 5) == "24"


@pytest.mark.parametrize("text", ["[[policies", VALID.replace("48", '"soon"'), None])
def test_a_file_with_a_problem_keeps_the_policies_of_before(
    watched: Watched, text: str | None, caplog: pytest.LogCaptureFixture
) -> None:
    file = watched.open_file(VALID)
    watched.path.unlink() if text is None else watched.path.write_text(text)
    with caplog.at_level(logging.WARNING):
        assert watched.hours_after(file, 10) == "48"
    assert len([one for one in caplog.records if "policies_invalid" in one.getMessage()]) == 1
    assert str(watched.path) in caplog.text
    watched.path.write_text(VALID.replace("48", "24"))
    assert watched.hours_after(file, 5) == "24"


@pytest.mark.parametrize("text", ["[[policies", VALID.replace("48", '"soon"')])
def test_a_start_with_a_problem_is_refused(watched: Watched, text: str) -> None:
    with pytest.raises(Misconfigured, match=str(watched.path)):
        watched.open_file(text)


def test_two_changes_at_one_time_are_both_seen(watched: Watched) -> None:
    file = watched.open_file(VALID)
    seen = watched.path.stat()
    watched.path.write_text(VALID.replace("48", "24"))
    os.utime(watched.path, ns=(seen.st_atime_ns, seen.st_mtime_ns))
    assert watched.hours_after(file, 5) == "24"


@pytest.mark.parametrize(
    "text",
    [
        "a = " + "[" * 100_000,
        f"[[policies]]\n{'a.' * 5_000}a = 1",
        f"[[policies]]\nmatch = '**'\n'firnline.retain.hours' = {'9' * 5_000}",
        f"[[policies]]\nmatch = '**{'*a' * 5_000}'",
        f"[[policies]]\nmatch = '**'\n'firnline.sort' = '{'a' * 9_000}'",
        "[[policies]]\nmatch = '**'\n'firnline.retain.hours' = nan",
        "[[policies]]\nmatch = '**'\n'firnline.retain.hours' = -inf",
        "[[policies]]\nmatch = '**'\n'firnline.enabled' = 2026-11-27",
        "policies = [[]]",
        "\0",
    ],
)
def test_a_hostile_file_is_a_problem_and_never_an_error(path: Path, text: str) -> None:
    path.write_text(text)
    try:
        problems = read_policies(str(path)).problems
    except Misconfigured as error:
        problems = (str(error),)
    assert problems


def test_a_file_that_is_none_is_refused_whole(path: Path) -> None:
    with pytest.raises(Misconfigured):
        read_policies(str(path))
