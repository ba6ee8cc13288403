"""Run a service with other constants than its own: `python -m tests.kit.with_constants SERVICE
FIELD=VALUE...`. The fields of its settings that no variable sets are its constants."""

from __future__ import annotations

import sys
from ast import literal_eval
from collections.abc import Mapping
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Any

from firnline_adapters import service as beginning
from firnline_adapters.config.settings import declared_settings
from firnline_local.processes.command import Command

ROOT = Path(__file__).parents[2]


def with_constants(command: Command, service: str, **constants: Any) -> Command:
    """The command of a service, with these constants."""
    fields = [f"{name}={value!r}" for name, value in constants.items()]
    path = ":".join(filter(None, (str(ROOT), (command.env or {}).get("PYTHONPATH", ""))))
    argv = (sys.executable, "-m", "tests.kit.with_constants", service, *fields)
    return replace(command, argv=argv, env={**(command.env or {}), "PYTHONPATH": path})


def run(service: str, constants: Mapping[str, Any]) -> None:
    """Its `main`, which ends the process."""
    read = beginning.from_environment

    def changed(settings: type[Any], environment: Mapping[str, str]) -> Any:
        assert not constants.keys() & declared_settings(settings).keys(), "a variable says that"
        return replace(read(settings, environment), **constants)

    beginning.from_environment = changed
    sys.exit(import_module(f"firnline_{service}.__main__").main())


if __name__ == "__main__":
    _, _service, *_fields = sys.argv
    run(
        _service,
        {name: literal_eval(value) for name, _, value in (f.partition("=") for f in _fields)},
    )
