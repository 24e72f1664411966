"""The shared time limit of requests: a late request times out, and a request cancelled by others stays cancelled."""

from __future__ import annotations

import asyncio

import pytest

from mangonel.websessions.timeouts import SharedTimeout


async def wait(timeout: SharedTimeout, seconds: float) -> str:
    with timeout:
        await asyncio.sleep(seconds)
        return "in time"


async def test_each_wait_has_the_whole_time_and_no_more() -> None:
    loop = asyncio.get_running_loop()
    timeout = SharedTimeout(loop, 2)

    async def late() -> float:
        begun = loop.time()
        with pytest.raises(TimeoutError, match=r"no answer within 2 s"):
            await wait(timeout, 60)
        return loop.time() - begun

    async def staggered(number: int) -> float | str:
        await asyncio.sleep(number * 0.03)
        return await (late() if number % 2 else wait(timeout, 0.0))

    results = await asyncio.gather(*(staggered(number) for number in range(10)))
    assert results[::2] == ["in time"] * 5
    assert all(isinstance(took, float) and took >= 1.99 for took in results[1::2])


async def test_a_task_that_others_cancel_is_cancelled_and_not_late() -> None:
    timeout = SharedTimeout(asyncio.get_running_loop(), 30)
    task = asyncio.ensure_future(wait(timeout, 60))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert timeout._waiting == {}


async def test_a_task_that_is_late_and_cancelled_is_cancelled() -> None:
    timeout = SharedTimeout(asyncio.get_running_loop(), 30)
    task = asyncio.ensure_future(wait(timeout, 60))
    await asyncio.sleep(0)
    timeout._waiting[task] = 0.0
    timeout._expire()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert timeout._late == {}


async def test_a_task_may_wait_again_after_it_was_late() -> None:
    timeout = SharedTimeout(asyncio.get_running_loop(), 0.05)
    for _ in range(3):
        with pytest.raises(TimeoutError):
            await wait(timeout, 60)
    task = asyncio.current_task()
    assert task is not None
    assert task.cancelling() == 0
    assert await wait(timeout, 0.0) == "in time"


async def test_nothing_rings_when_nobody_waits() -> None:
    timeout = SharedTimeout(asyncio.get_running_loop(), 0.02)
    await wait(timeout, 0.0)
    async with asyncio.timeout(30):
        while timeout._timer is not None:
            await asyncio.sleep(0.005)
    assert timeout._waiting == {}
