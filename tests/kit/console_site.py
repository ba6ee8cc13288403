"""A console over a read model in Redis, for commands and their tests."""

from __future__ import annotations

import asyncio
import io
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from aiohttp import web
from click.testing import CliRunner, Result
from firnline_cli.__main__ import main
from firnline_console.http.api import Api
from firnline_console.read_model.port import Built
from firnline_local.processes.ports import free_port
from rich.console import Console

from tests.kit.console_model import TestReadModel

NOW = 1_795_270_005_000


class Site:
    """A console on a port of its own, in a thread."""

    def __init__(self, redis: str) -> None:
        self.model = TestReadModel(redis)
        self.model.begin_generation(Built("g", 1), replace=False)
        self.port = free_port()
        self.uri = f"http://127.0.0.1:{self.port}"
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever)

    def tell(self, *facts: Any) -> None:
        self.model.apply("g", facts)

    def start(self) -> None:
        self._thread.start()
        asyncio.run_coroutine_threadsafe(self._listen(), self._loop).result(30)

    async def _listen(self) -> None:
        api = Api(self.model, lambda: NOW, lambda: True)
        self._runner = web.AppRunner(api.create_application(), shutdown_timeout=0.1)
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", self.port).start()

    def stop(self) -> None:
        asyncio.run_coroutine_threadsafe(self._runner.cleanup(), self._loop).result(30)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


@pytest.fixture
def site(console_redis: str) -> Iterator[Site]:
    site = Site(console_redis)
    site.start()
    yield site
    site.stop()


def firnline(*words: str) -> Result:
    return CliRunner().invoke(main, words)


def said(site: Site, *words: str) -> str:
    result = firnline(*words, "--console", site.uri)
    assert result.exit_code == 0, result.output
    return result.output


def on_a_terminal(draw: Callable[[Console], None], width: int = 140) -> str:
    out = io.StringIO()
    draw(Console(file=out, force_terminal=True, width=width, height=40, color_system=None))
    return out.getvalue()
