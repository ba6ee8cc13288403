"""Trino's `optimize` in a server of its own, through the same catalog."""

from __future__ import annotations

import atexit
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from firnline_local.processes.ports import free_port
from firnline_local.processes.process import run_process

from bench.rewrite.child import Act, Question, serve
from bench.rewrite.trino import Server

START_S = 300.0  # 40 s on 2 busy cores
STOP_S = 5.0


def start(given: Question) -> Act:
    """The server is up; what it is asked first it does with a cold compiler."""
    folder = Path(given["folder"])
    server = Server(
        home=Path(given["home"]),
        java=Path(given["java"]),
        folder=folder,
        port=free_port(),
        heap=given["heap"],
        cores=given["cores"],
        catalog_uri=given["uri"],
    )
    held = ExitStack()
    held.enter_context(run_process(server.command(), folder / "server.log", START_S, STOP_S))
    atexit.register(held.close)

    def act(question: Question) -> dict[str, Any]:
        # Files above the threshold are left out, whatever deletes they have.
        call = "EXECUTE optimize(file_size_threshold => '1TB')"
        stats = server.run(f"ALTER TABLE lake.bench.{question['table']} {call}")
        return {"own_cpu_s": stats["cpuTimeMillis"] / 1000}

    return act


if __name__ == "__main__":
    serve(start)
