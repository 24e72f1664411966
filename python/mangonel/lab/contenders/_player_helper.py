"""A process that plays files of the parallel tasks beside others: a client of its own, two files at a time.

Started by the task as `python -m mangonel.lab.contenders._player_helper DESCRIPTOR`, before the clock runs.
"""

from __future__ import annotations

import asyncio
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from mangonel.lab import protocol
from mangonel.lab.contender import Target
from mangonel.lab.contenders._players import open_player

AT_A_TIME = 2


class Helper:
    """One player and how it is run: two tasks on its loop, or two threads."""

    def __init__(self, contender: str, target: Target, is_async: bool) -> None:
        self._runner = asyncio.Runner()
        self._threads = None if is_async else ThreadPoolExecutor(AT_A_TIME)
        self._player = self._runner.run(open_player(contender, target))

    def play(self, verb: str, items: list[list[Any]]) -> None:
        call = getattr(self._player, verb)
        if self._threads is None:
            self._runner.run(_tasks(call, items))
        else:
            list(self._threads.map(lambda item: call(*item), items))

    def close(self) -> None:
        if self._threads is None:
            self._runner.run(self._player.close())
        else:
            self._player.close()
            self._threads.shutdown()
        self._runner.close()


async def _tasks(call: Any, items: list[list[Any]]) -> None:
    queue = iter(items)

    async def play() -> None:
        for item in queue:
            await call(*item)

    await asyncio.gather(*(play() for _ in range(AT_A_TIME)))


def main() -> int:
    """Answer messages of the form {"verb": NAME, "items": [[argument, …], …]} until the stream ends."""
    channel = protocol.inherited()
    order = channel.receive()
    if order is None:
        return 1
    try:
        helper = Helper(order["contender"], Target(**order["target"]), order["is_async"])
        # As many connections as files are played at a time.
        helper.play("hello", [[3]] * AT_A_TIME)
    except Exception as error:
        channel.send({"error": f"{type(error).__name__}: {error}"})
        return 1
    channel.send({"event": "ready"})
    while (message := channel.receive()) is not None:
        before = time.process_time_ns()
        try:
            helper.play(message["verb"], message["items"])
        except Exception as error:
            channel.send({"error": f"{message['verb']}: {type(error).__name__}: {error}"})
            continue
        channel.send({"event": "done", "cpu_ns": time.process_time_ns() - before})
    helper.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
