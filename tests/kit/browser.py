"""A page in headless Chromium, spoken to by its DevTools protocol."""

from __future__ import annotations

import asyncio
import base64
import json
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "google-chrome"))), None)
PATIENCE_S = 60.0


class Page:
    """One tab."""

    def __init__(self, socket: aiohttp.ClientWebSocketResponse) -> None:
        self._socket = socket
        self._number = 0

    async def call(self, method: str, **parameters: Any) -> Any:
        """Return what the browser answers. Raises RuntimeError with its words."""
        self._number += 1
        asked = {"id": self._number, "method": method, "params": parameters}
        await self._socket.send_json(asked)
        while True:
            answer = await self._socket.receive_json(timeout=PATIENCE_S)
            if answer.get("id") == self._number:
                if "error" in answer:
                    raise RuntimeError(answer["error"]["message"])
                return answer["result"]

    async def run(self, script: str) -> Any:
        """Return the value of an expression, of a promise what it comes to."""
        found = await self.call(
            "Runtime.evaluate", expression=script, awaitPromise=True, returnByValue=True
        )
        if "exceptionDetails" in found:
            raise RuntimeError(json.dumps(found["exceptionDetails"])[:2_000])
        return found["result"].get("value")

    async def until(self, condition: str) -> None:
        """Return when an expression is true."""
        async with asyncio.timeout(PATIENCE_S):
            while not await self.run(condition):
                await asyncio.sleep(0.05)

    async def resize(self, width: int, height: int) -> None:
        """Give the tab another size."""
        size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
        await self.call("Emulation.setDeviceMetricsOverride", **size)

    async def picture(self, path: Path) -> None:
        """Write what is to be seen, for a person."""
        shot = await self.call("Page.captureScreenshot")
        path.write_bytes(base64.b64decode(shot["data"]))


@asynccontextmanager
async def opened(address: str, profile: Path) -> AsyncIterator[Page]:
    """Open an address in a browser of its own; `profile`: an empty folder."""
    assert CHROMIUM is not None
    flags = ("--headless=new", "--no-sandbox", "--disable-gpu", "--remote-debugging-port=0")
    # Nothing is looked up: a test needs no network.
    flags += ("--disable-background-networking", "--no-first-run", f"--user-data-dir={profile}")
    process = await asyncio.create_subprocess_exec(
        CHROMIUM, *flags, address, stderr=asyncio.subprocess.DEVNULL
    )
    try:
        port = await _port(profile / "DevToolsActivePort")
        async with aiohttp.ClientSession() as session:
            target = await _target(session, port)
            async with session.ws_connect(target, max_msg_size=0) as socket:
                yield Page(socket)
    finally:
        process.terminate()
        await process.wait()


async def _port(file: Path) -> int:
    async with asyncio.timeout(PATIENCE_S):
        while not (file.exists() and file.read_text().strip()):
            await asyncio.sleep(0.05)
    return int(file.read_text().split()[0])


async def _target(session: aiohttp.ClientSession, port: int) -> str:
    async with asyncio.timeout(PATIENCE_S):
        while True:
            async with session.get(f"http://127.0.0.1:{port}/json/list") as answer:
                for one in await answer.json():
                    if one["type"] == "page":
                        return str(one["webSocketDebuggerUrl"])
            await asyncio.sleep(0.05)
