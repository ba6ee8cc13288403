"""`firnline --help` is quick, complete and fits 80 columns."""

from __future__ import annotations

import json
import resource
import subprocess
import sys
from pathlib import Path

import click
import pytest
from click.testing import CliRunner
from firnline_cli import commands
from firnline_cli.__main__ import COMMANDS, MODULES, main

HEAVY = {
    "confluent_kafka",
    "msgspec",
    "psutil",
    "pyarrow",
    "pyiceberg",
    "pyspark",
    "requests",
    "rich",
}
ASKED_OF_A_CONSOLE = ("tables", "tasks", "events", "explain", "advise")


def imported(*words: str) -> set[str]:
    """What of HEAVY a command line has imported when its help is out."""
    code = (
        "import json, sys\n"
        "from firnline_cli.__main__ import main\n"
        f"main({[*words, '--help']!r}, standalone_mode=False)\n"
        f"print(json.dumps(sorted(set({sorted(HEAVY)!r}) & sys.modules.keys())))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, text=True)
    return set(json.loads(done.stdout.splitlines()[-1]))


def test_help_imports_no_command() -> None:
    before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
    assert imported() == set()
    assert resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - before < 0.3


@pytest.mark.parametrize("name", ASKED_OF_A_CONSOLE)
def test_what_asks_a_console_needs_neither_broker_nor_catalog(name: str) -> None:
    assert imported(name) & {"confluent_kafka", "pyiceberg", "requests", "pyarrow"} == set()


def test_every_command_is_listed_with_a_short_line() -> None:
    folder = Path(commands.__file__).parent
    modules = {f"{path.parent.name}.{path.stem}" for path in folder.glob("*/[a-z]*.py")}
    assert {name.removeprefix("firnline_cli.commands.") for name in MODULES.values()} == modules
    assert [text for text in COMMANDS.values() if len(text) > 45] == []
    text = CliRunner().invoke(main, ["--help"]).output
    assert all(f"  {name} " in text and line in text for name, line in COMMANDS.items())
    assert "Exit code: 0 done" in text


@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_every_command_is_there_and_has_json_where_it_answers(name: str) -> None:
    command = main.get_command(click.Context(main), name)
    assert command is not None
    assert "--json" in {option for one in command.params for option in one.opts}


def test_a_slip_of_the_pen_is_helped() -> None:
    result = CliRunner().invoke(main, ["table"])
    assert result.exit_code == 2
    assert "Did you mean: tables?" in result.output


def test_completion_knows_the_commands() -> None:
    found = main.shell_complete(click.Context(main), "sw")
    assert [one.value for one in found] == ["sweep-outputs"]
