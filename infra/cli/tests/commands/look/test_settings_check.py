"""`firnline settings --check`, with the example of docs/reference/properties.md."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from click.testing import CliRunner
from firnline_adapters.policy_file import read_policies
from firnline_cli.commands.look.settings import command
from firnline_domain.identity import TableName

PAGE = Path(__file__).parents[5] / "docs/reference/properties.md"


@pytest.fixture
def example(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The examples of the page, as firnline.toml in the working directory."""
    monkeypatch.chdir(tmp_path)
    blocks = "".join(re.findall(r"```toml\n(.*?)```", PAGE.read_text(), re.DOTALL))
    Path("firnline.toml").write_text(blocks)
    return blocks


def test_the_example_has_no_problem_and_sets_what_it_says(example: str) -> None:
    done = CliRunner().invoke(command, ["--check", "firnline.toml"])
    assert (done.exit_code, done.output) == (
        0,
        "firnline.toml: no problem (policies: 2, rules: 1)\n",
    )
    policies = read_policies("firnline.toml").policies

    def hours(*namespace: str) -> str:
        table = TableName("u", namespace, "events_raw")
        return next(
            text
            for key, text in policies.with_policies(table, {}).items()
            if key.endswith(":firnline.retain.hours")
        )

    assert (hours("web"), hours("web", "eu")) == ("24", "48")
    [rule] = policies.rules_of(TableName("u", ("finance", "eu"), "orders"))
    assert ("partition-fields", "day(*) | month(*)") in rule.required
    assert rule.forbidden == (("sort-order", "comment *"),)


def test_each_problem_is_a_line_as_the_page_shows_it(example: str) -> None:
    wrong = example.replace("= 24 ", '= "a day" #').replace('"firnline.sort" =', "color =")
    Path("firnline.toml").write_text(wrong)
    done = CliRunner().invoke(command, ["--check", "firnline.toml"])
    warning, problem = done.output.splitlines()
    assert done.exit_code == 1
    assert warning == (
        "warning: firnline.toml: policy 2 (lake.*.events_*): color is no property of Firnline: "
        "remove it"
    )
    assert problem in PAGE.read_text().splitlines()


@pytest.mark.parametrize("text", ["[[policies", "[[polices]]\nmatch = '**'\n"])
def test_a_file_of_another_form_is_a_problem(example: str, text: str) -> None:
    Path("firnline.toml").write_text(text)
    done = CliRunner().invoke(command, ["--check", "firnline.toml"])
    assert done.exit_code == 1
    assert done.output.startswith("firnline.toml: ")
