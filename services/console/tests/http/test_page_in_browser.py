"""The page in a browser: what people have under their hands stays there, and can be read."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer
from firnline_console.http.api import Api
from firnline_console.read_model.port import Built
from firnline_domain.base.values import replace
from firnline_domain.errors import RetryLater

from tests.kit.browser import CHROMIUM, Page, opened
from tests.kit.console_model import TestReadModel

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="no Chromium here")
Make = Callable[..., Any]
NOW = 1_795_270_005_000
SETTLED = "document.querySelectorAll('.detail .sub tbody tr').length > 2"
# Three whole redraws, each with what the console answers then.
THREE_POLLS = "(async () => { for (let n = 0; n < 3; n++) await refresh(); return true; })()"
FOCUSED = "document.activeElement.outerHTML.slice(0, 80)"


class Stage:
    """A console over a read model in Redis, whose clock goes on and whose Redis can be away."""

    def __init__(self, make: Make, redis: str) -> None:
        self.model, self.now_ms, self.is_away = TestReadModel(redis), NOW, False
        self.model.begin_generation(Built("g", 1), replace=False)
        state = make("table_state/in_flight")
        part = replace(state.partitions[0], status="idle", until_ms=NOW + 3_600_000)
        parts = tuple(
            replace(part, scope=replace(part.scope, partition=f'["2026-11-{n:02}"]'))
            for n in range(1, 21)
        )
        self.model.apply("g", [replace(state, partitions=parts, partition_count=280)])
        self.model.apply(
            "g", [make("rewrite_files/compact", task_id=f"task{n:08}") for n in range(9)]
        )
        self.model.apply("g", [make("rewrite_committed/native", task_id="task00000001")])
        self.model.apply("g", [make("dead_lettered/unknown_schema")])
        self.server = TestServer(self._application())

    def _application(self) -> web.Application:
        api = Api(self.model, self._time, lambda: True)
        return api.create_application()

    def _time(self) -> int:
        if self.is_away:
            raise RetryLater("its Redis does not answer")
        self.now_ms += 1_000
        return self.now_ms


async def stage(
    make: Make, redis: str, check: Callable[[Page, Stage], Any], tmp_path: Path
) -> None:
    made = Stage(make, redis)
    await made.server.start_server()
    address = str(made.server.make_url("/#shop.orders"))
    async with made.server, opened(address, tmp_path / "p") as page:
        await page.resize(1280, 900)
        await page.until(SETTLED)
        await check(page, made)


async def test_redraws_leave_focus_and_selection(
    make: Make, tmp_path: Path, console_redis: str
) -> None:
    async def check(page: Page, made: Stage) -> None:
        kinds = "button.opener, button.id, th button, #statuses button, .seg button, [tabindex]"
        count = await page.run(f"document.querySelectorAll('{kinds}').length")
        assert count > 20
        lost = []
        for number in range(0, count, max(count // 12, 1)):
            await page.run(f"document.querySelectorAll('{kinds}')[{number}].focus(); 1")
            before = await page.run(FOCUSED)
            assert not before.startswith("<body")
            await page.run(THREE_POLLS)
            if await page.run(FOCUSED) != before:
                lost.append(before)
        assert lost == []
        await page.run("getSelection().selectAllChildren(document.querySelector('.verdict')); 1")
        text = await page.run("getSelection().toString()")
        assert text
        await page.run(THREE_POLLS)
        assert await page.run("getSelection().toString()") == text

    await stage(make, console_redis, check, tmp_path)


async def test_trouble_is_in_view_wherever_one_has_scrolled(
    make: Make, tmp_path: Path, console_redis: str
) -> None:
    async def check(page: Page, made: Stage) -> None:
        await page.run("scrollTo(0, document.body.scrollHeight); 1")
        assert await page.run("scrollY") > 0
        made.is_away = True
        await page.run("refresh()")
        await page.until("!document.querySelector('#banner').hidden")
        top, bottom, height = await page.run(
            "(b => [b.top, b.bottom, innerHeight])"
            "(document.querySelector('#banner').getBoundingClientRect())"
        )
        assert 0 <= top < bottom <= height

    await stage(make, console_redis, check, tmp_path)


@pytest.mark.parametrize("width", [1280, 390])
async def test_reasons_can_be_read(
    make: Make, tmp_path: Path, width: int, console_redis: str
) -> None:
    """Only names are cut; they have their whole text in a title."""

    async def check(page: Page, made: Stage) -> None:
        await page.resize(width, 900)
        await page.until(f"innerWidth === {width}")
        cut = await page.run(
            "[...document.querySelectorAll('td, th')].filter(c => c.offsetWidth && "
            "c.scrollWidth > c.clientWidth && !c.title).map(c => c.textContent.slice(0, 60))"
        )
        assert cut == []
        sideways = await page.run(
            "[...document.querySelectorAll('.detail .sub')].filter(c => c.scrollWidth > "
            "c.clientWidth).map(c => `${c.ariaLabel} ${c.scrollWidth} of ${c.clientWidth}`)"
        )
        assert sideways == []
        assert await page.run("document.documentElement.scrollWidth <= innerWidth")

    await stage(make, console_redis, check, tmp_path)


async def test_partitions_that_are_not_shown_are_counted(
    make: Make, tmp_path: Path, console_redis: str
) -> None:
    async def check(page: Page, made: Stage) -> None:
        assert "of 280; 260 are not shown" in await page.run("document.body.innerText")

    await stage(make, console_redis, check, tmp_path)
