"""A NATS server with JetStream, on loopback."""

from __future__ import annotations

from pathlib import Path

from firnline_local.processes.command import Command
from firnline_local.processes.ports import LOOPBACK, is_open

from tests.kit.go_programs import go_program

PACKAGE, VERSION = "github.com/nats-io/nats-server/v2", "v2.15.3"
CHECKSUM = "h1:IgHIKL4DYN9mEfwtPcdM39muvXG8v9FBADQn0f4Whs0="


def nats_command(folder: Path, port: int) -> Command:
    """Return the command of a server that keeps its streams in `folder`. Raises NoGo."""
    program = go_program(PACKAGE, VERSION, CHECKSUM)
    given = ("--addr", LOOPBACK, "--port", str(port), "--jetstream", "--store_dir", str(folder))
    return Command("nats", (str(program), *given), folder, lambda: is_open(port))


def nats_uri(port: int) -> str:
    return f"nats://{LOOPBACK}:{port}"
