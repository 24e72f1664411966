"""A process that plays files of the parallel tasks beside others: a client of its own, two files at a time.

Started by the task as `python -m mangonel.lab.contenders._player_helper DESCRIPTOR`, before the clock runs.
"""

from __future__ import annotations

import sys
import time
from typing import Any

from mangonel.lab import protocol, registry
from mangonel.lab.contender import Target
from mangonel.lab.contenders._faces import play
from mangonel.lab.contenders._players import open_player
from mangonel.lab.experiment import Bench, Size

AT_A_TIME = 2


def main() -> int:
    """Answer messages of the form {"verb": NAME, "items": [[argument, …], …]} until the stream ends."""
    channel = protocol.inherited()
    order = channel.receive()
    if order is None:
        return 1
    bench = Bench(registry.contender(order["contender"]), Target(**order["target"]), Size(), 0)

    def call(verb: str, items: list[list[Any]]) -> None:
        act = getattr(player, verb)
        bench.drive(lambda item: act(*item), items, AT_A_TIME)

    try:
        player = play(bench, open_player(bench.contender.id, bench.target))
        # As many connections as files are played at a time.
        call("hello", [[3]] * AT_A_TIME)
    except Exception as error:
        channel.send({"error": f"{type(error).__name__}: {error}"})
        return 1
    channel.send({"event": "ready"})
    while (message := channel.receive()) is not None:
        before = time.process_time_ns()
        try:
            call(message["verb"], message["items"])
        except Exception as error:
            channel.send({"error": f"{message['verb']}: {type(error).__name__}: {error}"})
            continue
        channel.send({"event": "done", "cpu_ns": time.process_time_ns() - before})
    bench.run(player.close())
    bench.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
