"""The commands with their options, from the argument parsers."""

from __future__ import annotations

import inspect
from collections.abc import Iterator

import click
from firnline_cli.__main__ import GROUPS, main

from tests.tools.reference.markdown import cell, table

COMMON = ("--state", "--config", "--catalog", "--kafka", "--console", "--json")
CONTEXT = click.Context(main, info_name="firnline", **main.context_settings)


def list_commands() -> str:
    """Return the table of all commands."""
    rows = (
        f"[`firnline {name}`](#firnline-{name}) | {group} | {about}"
        for group, commands in GROUPS.items()
        for name, about in commands.items()
    )
    return table("command | group | what it does", rows)


def list_common_options() -> str:
    """Return the table of options that several commands have."""
    options: dict[str, click.Option] = {}
    for _, command in _commands():
        for option in _options(command):
            options.setdefault(option.opts[0], option)
    return table("option | meaning", (_row(options[name]) for name in COMMON))


def list_options() -> str:
    """Return a section for each command: its help text, arguments and own options."""
    return "\n".join(_section(name, command) for name, command in _commands())


def _commands() -> Iterator[tuple[str, click.Command]]:
    for names in GROUPS.values():
        for name in names:
            command = main.get_command(CONTEXT, name)
            assert command is not None
            yield name, command


def _options(command: click.Command) -> list[click.Option]:
    return [one for one in command.params if isinstance(one, click.Option) and not one.hidden]


def _section(name: str, command: click.Command) -> str:
    context = click.Context(command, info_name=name, parent=CONTEXT)
    usage = " ".join((f"firnline {name}", *command.collect_usage_pieces(context)))
    common = [one for one in _options(command) if one.opts[0] in COMMON]
    own = [one for one in _options(command) if one.opts[0] not in COMMON]
    paragraphs = [f"## `firnline {name}`", f"`{usage}`", _help(command)]
    if own:
        paragraphs.append(table("option | meaning", map(_row, own)).rstrip())
    if common:
        names = ", ".join(f"`{one.opts[0]}`" for one in common)
        paragraphs.append(f"Also {names} ([common options](#common-options)).")
    return "\n\n".join(paragraphs) + "\n"


def _help(command: click.Command) -> str:
    paragraphs = inspect.cleandoc(command.help or "").split("\n\n")
    return "\n\n".join(" ".join(one.split()).replace("<", "&lt;") for one in paragraphs)


def _row(option: click.Option) -> str:
    names = ", ".join(option.opts)
    value = "" if option.is_flag else f" {cell(option.make_metavar(CONTEXT))}"
    return f"`{names}{value}` | {cell(option.help or '')}{_default(option)}"


def _default(option: click.Option) -> str:
    if not option.show_default or option.is_flag:
        return ""
    default = option.get_default(CONTEXT)
    return f" Default: `{default}`."
