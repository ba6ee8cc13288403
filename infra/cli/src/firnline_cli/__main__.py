"""`firnline`: the group. A command's module is imported only when that command is asked for."""

from __future__ import annotations

import difflib
import os
from importlib import import_module
from typing import Any

import click
from click.shell_completion import CompletionItem
from firnline_domain.version import VERSION

# Command -> its line in `firnline --help`, at most 45 characters: a line here costs no import.
GROUPS: dict[str, dict[str, str]] = {
    "What happens": {
        "status": "Show what runs and what is paused.",
        "tables": "List tables, most files to compact first.",
        "tasks": "List tasks with their ids and results.",
        "events": "Show commits, tasks, rewrites, failures.",
        "explain": "Explain why a table is or is not rewritten.",
        "advise": "Show recommendations for table owners.",
        "settings": "Show effective settings and their source.",
        "doctor": "Check connections, permissions, settings.",
    },
    "Maintenance": {
        "run": "Run one action on one table now.",
        "purge": "Prove that deleted rows left the storage.",
        "pause": "Pause maintenance of some or all tables.",
        "resume": "End a pause.",
        "unpark": "Retry partitions that failed too often.",
        "undo": "Revert the commit of a rewrite.",
        "verify": "Verify the rows of a rewrite.",
        "move": "Move tables to another bucket.",
        "sweep-outputs": "Remove files of failed tasks.",
    },
    "Existing tables": {
        "assess": "Report which tables need maintenance.",
        "plan": "Show which tasks would be scheduled.",
        "adopt": "Register existing tables for maintenance.",
    },
    "Set up": {
        "jars": "Download Iceberg's jars and cloud bundles.",
        "topics": "Create the topics, report differences.",
        "kafka-acls": "Print the minimal Kafka ACLs.",
        "spark-archive": "Pack Python for Spark executors.",
    },
    "Embedded stack": {
        "up": "Start Kafka, Redis, catalog and services.",
        "down": "Stop the embedded stack.",
        "demo": "Run writers, compare before and after.",
    },
}
PACKAGES = ("look", "act", "existing_tables", "setup", "stack")  # of GROUPS, in this order
COMMANDS = {name: text for group in GROUPS.values() for name, text in group.items()}
MODULES = {
    name: f"firnline_cli.commands.{package}.{name.replace('-', '_')}"
    for package, group in zip(PACKAGES, GROUPS.values(), strict=True)
    for name in group
}
EPILOG = """Exit code: 0 done, 1 failed or not possible, 2 wrong arguments.

\b
Completion, or with zsh_source, fish_source:
  eval "$(_FIRNLINE_COMPLETE=bash_source firnline)\""""


class Commands(click.Group):
    """The command group: it finds a command in its module of `firnline_cli.commands`."""

    def invoke(self, ctx: click.Context) -> Any:
        """Run a command. Errors quote addresses, which may contain passwords, and a terminal is
        often shared: passwords are removed."""
        from firnline_adapters.config.redaction import mask_environment, redact

        mask_environment(os.environ)
        try:
            return super().invoke(ctx)
        except click.ClickException as error:
            error.message = redact(error.message)
            raise
        except ModuleNotFoundError as error:  # of an extra
            from firnline_cli.shared.extras import not_installed_error

            raise not_installed_error(error) from None

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Accept `firnline help X` and `firnline version`, as other programs do."""
        if args[:1] == ["help"]:
            args = [*args[1:2], "--help"]
        elif args == ["version"]:
            args = ["--version"]
        return super().parse_args(ctx, args)

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        command = import_module(MODULES[cmd_name]).command
        assert isinstance(command, click.Command)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args[0] not in COMMANDS and (close := difflib.get_close_matches(args[0], COMMANDS)):
            ctx.fail(f"No such command '{args[0]}'. Did you mean: {', '.join(close)}?")
        return super().resolve_command(ctx, args)

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        found = [CompletionItem(name, help=text) for name, text in COMMANDS.items()]
        return [one for one in found if one.value.startswith(incomplete)]

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        for title, commands in GROUPS.items():
            with formatter.section(title):
                formatter.write_dl(list(commands.items()), col_max=20)


@click.group(cls=Commands, epilog=EPILOG, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(VERSION, message="%(prog)s %(version)s")
def main() -> None:
    """Maintain Apache Iceberg tables: compact, expire, clean up."""


if __name__ == "__main__":
    main(prog_name="firnline")
