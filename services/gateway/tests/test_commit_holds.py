"""Commits that wait for one of Firnline's: once, not long, and not all the time."""

from __future__ import annotations

import asyncio

from firnline_gateway.middlewares.commit_hold import CommitHold


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


async def waits(holds: CommitHold, table: str) -> bool:
    task = asyncio.create_task(holds.wait_for_release(table))
    await asyncio.sleep(0.01)
    waiting = not task.done()
    task.cancel()
    return waiting


def test_commits_wait_until_ours_is_answered() -> None:
    async def run() -> None:
        holds = CommitHold(10_000)
        holds.begin_hold("t")
        assert not await waits(holds, "other")
        waiting = asyncio.create_task(holds.wait_for_release("t"))
        await asyncio.sleep(0.01)
        assert not waiting.done()
        holds.release_hold("t")
        await asyncio.wait_for(waiting, 5)

    asyncio.run(run())


def test_nobody_waits_longer_than_that() -> None:
    async def run() -> None:
        holds = CommitHold(20)
        holds.begin_hold("t")
        await asyncio.wait_for(holds.wait_for_release("t"), 5)

    asyncio.run(run())


def test_it_can_be_switched_off() -> None:
    async def run() -> None:
        holds = CommitHold(0)
        holds.begin_hold("t")
        assert not await waits(holds, "t")

    asyncio.run(run())


def test_who_asks_all_the_time_holds_a_quarter_of_it() -> None:
    async def run() -> None:
        clock, held = Clock(), 0
        holds = CommitHold(300, clock)
        steps = 400
        for _ in range(steps):
            clock.now += 0.05
            holds.begin_hold("t")
            held += await waits(holds, "t")
        assert 0 < held <= steps / (1 + CommitHold.rests) + 6

    asyncio.run(run())
