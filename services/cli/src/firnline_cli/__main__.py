"""`firnline`: the group. A command's module is imported only when it is asked for."""

from __future__ import annotations

import os
import pkgutil
from importlib import import_module
from typing import Any

import click
from firnline_adapters.redaction import learn_environment, redacted
from firnline_domain.version import VERSION

import firnline_cli
from firnline_cli._extras import lacking


class Commands(click.Group):
    """Finds `firnline SOME-NAME` in firnline_cli.some_name."""

    def invoke(self, ctx: click.Context) -> Any:
        """Errors quote addresses, which may have passwords; a terminal is often shared."""
        learn_environment(os.environ)
        try:
            return super().invoke(ctx)
        except click.ClickException as error:
            error.message = redacted(error.message)
            raise
        except ModuleNotFoundError as error:  # of an extra
            raise lacking(error) from None

    def list_commands(self, ctx: click.Context) -> list[str]:
        modules = (module.name for module in pkgutil.iter_modules(firnline_cli.__path__))
        return sorted(name.replace("_", "-") for name in modules if not name.startswith("_"))

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in self.list_commands(ctx):
            return None
        command = import_module(f"firnline_cli.{cmd_name.replace('-', '_')}").command
        assert isinstance(command, click.Command)
        return command


@click.group(cls=Commands)
@click.version_option(VERSION, message="%(prog)s %(version)s")
def main() -> None:
    """Keep Iceberg tables healthy, seconds after each commit."""


if __name__ == "__main__":
    main()
