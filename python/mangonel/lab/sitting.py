"""One experiment with all its contenders at the table: each pass takes one sample of everybody, in a new order.

The form for little time: a contender starts once, all get ready side by side, and samples that are compared lie
within a second of each other. What it cannot tell is how a contender differs from process to process.
Knows nothing of drivers; the conductor decides what is played and for how long.
"""

from __future__ import annotations

import functools
import math
import random
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from mangonel.lab import registry, sentinel
from mangonel.lab.checks import grown, other_concern
from mangonel.lab.contender import Contender
from mangonel.lab.experiment import Experiment, Part
from mangonel.lab.protocol import Child, ChildError, Message
from mangonel.lab.record import Cell, Record
from mangonel.lab.statistics import STUDENT, median

__all__ = ["NARROW", "PASSES", "Player", "Sitting", "half_width"]

PASSES = 100  # more than a sitting has: its passes are numbered behind those of the sitting before
SHORT = 4  # passes at least of work that waits for nothing, unless its experiment says another number: it is short
ENOUGH = 6  # passes, before narrow intervals end them
MOST = 9  # passes, however wide the intervals are
NARROW = 0.04  # half the width of a ratio's interval, as a share, that is good enough


@dataclass
class Player:
    """A contender at the table.

    Attributes:
        names: of what its worker writes to, as the clerk inspects it.
        out: it plays no more, in this part.
    """

    contender: Contender
    child: Child
    scratch: str
    digest: str = ""
    out: bool = False
    samples: list[Message] = field(default_factory=list)


class Sitting:
    """Plays parts of one experiment with those at the table.

    Args:
        ask: asks the clerk.
        number: of the sitting among those of its experiment.
        patience: seconds that a worker may be silent.
    """

    def __init__(
        self,
        experiment: Experiment,
        record: Record,
        ask: Callable[[Message], Message],
        shuffle: random.Random,
        number: int,
        patience: float,
    ) -> None:
        self._experiment = experiment
        self._record = record
        self._ask = ask
        self._shuffle = shuffle
        self._first = number * PASSES
        self._patience = patience
        self.looks: dict[int, list[int]] = {}

    def play(
        self, part: Part, named: Part, players: list[Player], least: int, until: float
    ) -> dict[str, dict[str, str]]:
        """Play a part and return the digests of what was answered and written, by contender.

        Args:
            named: the part as tables name it.
            least: passes that are played in any case.
            until: when no further pass begins, by the monotonic clock, however wide the intervals are.
        """
        self._get_ready(part, named, players)
        if part.judge == "client" and not part.server and least == Experiment.passes:
            least = SHORT
        number = 0
        while any(not player.out for player in players):
            is_over = number >= MOST or time.monotonic() > until
            # Few values agree by chance; whoever stops when they do has intervals that are too narrow.
            is_enough = number >= ENOUGH and self._is_narrow(part, players)
            if number >= least and (is_over or is_enough):
                break
            self._pass(part, named, players, number)
            number += 1
        return self._finish(part, named, players)

    def _get_ready(self, part: Part, named: Part, players: list[Player]) -> None:
        """Let all check their answers and warm up: the first alone, since it may fill what others use."""
        for player in players:
            player.digest, player.out, player.samples = "", False, []
        waiting: list[Player] = []
        for place, player in enumerate(players):
            self._guarded(
                player, named, functools.partial(player.child.tell, {"part": part.id, "samples": 0})
            )
            waiting.append(player)
            while waiting and (place == 0 or len(waiting) >= self._experiment.at_once):
                self._until_ready(waiting.pop(0), named)
        for player in waiting:
            self._until_ready(player, named)

    def _until_ready(self, player: Player, named: Part) -> None:
        def hear() -> None:
            message = player.child.hear(self._patience)
            if message["event"] == "verified":
                player.digest = message["digest"]
                message = player.child.hear(self._patience)
            self._expect(message, "ready", player, named)

        if not player.out:
            self._guarded(player, named, hear)

    def _pass(self, part: Part, named: Part, players: list[Player], number: int) -> None:
        look = sentinel.loop_ns()
        self.looks.setdefault(self._first + number, []).append(look)
        playing = [player for player in players if not player.out]
        self._shuffle.shuffle(playing)
        groups = [playing] if part.sleeps else [[player] for player in playing]
        position = 0
        for group in groups:
            before = self._ask({"do": "cpu"}) if part.server else {}
            for player in group:
                self._guarded(player, named, functools.partial(player.child.tell, {"go": True}))
            for player in group:
                self._sample(player, part, named, before)
                if not player.out:
                    entry = {
                        "round": self._first + number,
                        "position": position,
                        "at": round(time.time(), 3),
                        "sentinel_ns": look,
                        "digest": player.digest,
                        "samples": player.samples[-1:],
                    }
                    self._record.add(self._cell(player, named), entry)
                position += 1

    def _sample(self, player: Player, part: Part, named: Part, before: Message) -> None:
        def hear() -> None:
            message = player.child.hear(self._patience)
            if not self._expect(message, "sample", player, named):
                return
            if part.server:
                after = self._ask({"do": "cpu"})
                message["server_cpu_ns"] = max(0, after["cpu_ns"] - before["cpu_ns"] - after["cost"])
                message["counters"] = grown(before["counters"], after["counters"], after["own"])
            player.samples.append(message)
            # The next one begins when this one has put its things in order.
            self._expect(player.child.hear(self._patience), "ready", player, named)

        if not player.out:
            self._guarded(player, named, hear)

    def _finish(self, part: Part, named: Part, players: list[Player]) -> dict[str, dict[str, str]]:
        digests: dict[str, dict[str, str]] = {part.id: {}, f"{part.id} written": {}}
        for player in players:
            if not player.out:
                self._guarded(player, named, functools.partial(self._end, player, part, named, digests))
        return digests

    def _end(self, player: Player, part: Part, named: Part, digests: dict[str, dict[str, str]]) -> None:
        player.child.tell({"go": False})
        message = player.child.hear(self._patience)
        if not self._expect(message, "done", player, named):
            return
        name = player.contender.id
        self._record.close_time(self._cell(player, named), message["close_ns"])
        if (written := message["written"]) is not None:
            seen = self._ask({"do": "inspect", "collection": player.scratch})
            if seen["count"] != written:
                self._fail(player, named, f"wrote {written}, the collection holds {seen['count']}")
                return
            digests[f"{part.id} written"][name] = seen["digest"]
        if other := other_concern(part.write_concern, player.samples):
            self._fail(player, named, f"asked to write with {part.write_concern}, {other}")
            return
        digests[part.id][name] = player.digest

    def _expect(self, message: Message, event: str, player: Player, named: Part) -> bool:
        """Return whether it is that message; else the player is out of this part."""
        if message["event"] == event:
            return True
        reason = f"expected {event!r} of a worker, heard {message['event']!r}"
        if message["event"] == "failed":
            reason = f"{message['reason']} at {message['where']}"
        self._fail(player, named, reason)
        return False

    def _guarded(self, player: Player, named: Part, call: Callable[[], Any]) -> None:
        if player.out:
            return
        try:
            call()
        except ChildError as error:
            self._fail(player, named, str(error))
            player.child.kill()

    def _fail(self, player: Player, named: Part, reason: str) -> None:
        player.out = True
        self._record.fail(self._cell(player, named), reason)

    def _cell(self, player: Player, named: Part) -> Cell:
        return self._record.cell(self._experiment, named, player.contender)

    def _is_narrow(self, part: Part, players: list[Player]) -> bool:
        """Return whether everybody's ratio to the reference is known well enough."""
        playing = {player.contender.id: player.samples for player in players if not player.out}
        wanted = self._experiment.references or registry.REFERENCES
        base = next((playing[name] for name in wanted if name in playing), None)
        if base is None:
            base = next(iter(playing.values()), [])
        judge = "cpu_ns" if part.judge == "client" else "wall_ns"
        return all(half_width(_logs(samples, base, judge)) <= NARROW for samples in playing.values())


def half_width(logs: list[float]) -> float:
    """Return half the width of the 95 % interval of these logarithms' middle, by their distances from the median."""
    if len(logs) < 2:
        return math.inf
    middle = median(logs)
    # 1.4826 median distances are a standard deviation where the values are normal.
    spread = 1.4826 * median([abs(value - middle) for value in logs])
    student = STUDENT[min(len(logs) - 2, len(STUDENT) - 1)]
    return student * spread * math.sqrt(math.pi / 2 / len(logs))


def _logs(samples: Iterable[Message], base: Iterable[Message], judge: str) -> list[float]:
    def each(message: Message) -> float:
        return max(float(message[judge]), 1.0) / max(1, int(message["ops"]))

    return [math.log(each(one)) - math.log(each(other)) for one, other in zip(samples, base, strict=False)]
