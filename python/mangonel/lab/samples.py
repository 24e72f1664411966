"""Takes samples of one part from its workers: ready, go, done; in passes of one sample each.

Knows nothing of drivers, rounds or budgets: the scheduler decides who plays, and when to stop.
"""

from __future__ import annotations

import math
import random
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from mangonel.lab import registry, sentinel
from mangonel.lab.contender import Contender
from mangonel.lab.experiment import Experiment, Part
from mangonel.lab.protocol import Child, ChildError, Message
from mangonel.lab.record import Key, Record
from mangonel.lab.statistics import half_width

ENOUGH = 6  # passes before narrow intervals may end them
SHORT = 4  # minimum passes of work that never waits, since it is short, unless its experiment sets another minimum
PASSES = 100  # more passes than an interleaved round has: the numbers of the next round's passes start here
DRIFT = 0.1  # share of writes that may have another write concern, such as those of a mapper's set-up
NARROW = 0.04  # half the width of a sufficiently narrow interval of a ratio, as a share


@dataclass
class Player:
    """A contender in its worker process."""

    contender: Contender
    child: Child
    scratch: str  # the collection that its worker writes to, which the fixtures inspect
    digest: str = ""
    out: bool = False  # whether it has left this part
    samples: list[Message] = field(default_factory=list)


@dataclass
class Round:
    """One round of an experiment; an interleaved one has passes, whose numbers count as rounds."""

    experiment: Experiment
    number: int
    instead_of: int | None = None  # the disturbed round that it repeats
    until: float = math.inf  # when an interleaved one should be over, by the monotonic clock
    lean: bool = False  # time is short, so only few play
    # The duration of the fixed loop in ns before each part or pass, by number.
    looks: dict[int, list[int]] = field(default_factory=dict)
    # Digests of results and of written data, by part and contender.
    digests: dict[str, dict[str, str]] = field(default_factory=dict)
    seldom_s: float = 0.0  # seconds of parts that the next round lacks

    @property
    def turn(self) -> int:
        return self.number if self.instead_of is None else self.instead_of


@dataclass
class Samples:
    """One part of a round with its players."""

    round: Round
    part: Part  # the part as workers know it
    named: Part  # the part as tables name it
    players: list[Player]
    record: Record
    ask: Callable[[Message], Message]  # asks the fixtures
    shuffle: random.Random
    position: int = 0  # of the first player among all players of the round

    def __post_init__(self) -> None:
        plan = self.record.plan
        self.experiment, self.timeout = self.round.experiment, plan.timeout
        # The part's own number of samples is taken and kept as one round; otherwise each pass is one round.
        self.fixed = not plan.size.brief
        self.first = self.round.number * (1 if self.fixed else PASSES)

    def take(self, until: float) -> None:
        """Get ready, take samples in passes until that moment of the monotonic clock, and check the written data."""
        self._get_ready()
        # The interval of two samples is almost meaningless.
        least = max(self.experiment.passes, 3 if self.record.plan.all_of_them else 0)
        if self.part.judge in ("client", "user") and not self.part.server and least == Experiment.passes:
            least = SHORT
        number, most = 0, self.part.samples if self.fixed else max(least, self.experiment.most_passes)
        while self._playing() and number < most:
            # Few values agree by chance; stopping as soon as they do makes intervals too narrow.
            is_enough = time.monotonic() > until or (number >= ENOUGH and self._is_narrow())
            if not self.fixed and number >= least and is_enough:
                break
            self._pass(number)
            number += 1
        for player in self._playing():
            self._guarded(player, partial(self._end, player))

    def _playing(self) -> list[Player]:
        return [player for player in self.players if not player.out]

    def _get_ready(self) -> None:
        """Let all workers check their results and warm up; the first alone, since it may fill shared data."""
        waiting: list[Player] = []
        for place, player in enumerate(self.players):
            player.digest, player.out, player.samples = "", False, []
            self._guarded(player, partial(player.child.tell, {"part": self.part.id}))
            waiting.append(player)
            while waiting and (place == 0 or len(waiting) >= self.experiment.at_once):
                self._guarded(waiting[0], partial(self._until_ready, waiting.pop(0)))
        for player in waiting:
            self._guarded(player, partial(self._until_ready, player))

    def _until_ready(self, player: Player) -> None:
        message = player.child.hear(self.timeout)
        if message["event"] == "verified":
            player.digest = message["digest"]
            message = player.child.hear(self.timeout)
        self._expect(message, "ready", player)

    def _pass(self, number: int) -> None:
        """Take one sample of each player, in a new order."""
        look = sentinel.loop_ns()
        place = self.first + (0 if self.fixed else number)
        self.round.looks.setdefault(place, []).append(look)
        is_last = self.fixed and number + 1 == self.part.samples
        playing = self._playing()
        self.shuffle.shuffle(playing)
        for group in [playing] if self.part.sleeps else [[player] for player in playing]:
            before = self.ask({"do": "cpu"}) if self.part.server else {}
            for player in group:
                self._guarded(player, partial(player.child.tell, {"go": True, "last": is_last}))
            for player in group:
                self._guarded(player, partial(self._sample, player, before, is_last))
                if not player.out and not self.fixed:
                    self._keep(player, place, playing.index(player), look)
        for player in self._playing() if is_last else ():
            self._keep(player, place, playing.index(player), look)

    def _keep(self, player: Player, place: int, position: int, look: int) -> None:
        entry = {
            "round": place,
            "position": self.position + position,
            "at": round(time.time(), 3),
            "sentinel_ns": look,
            "digest": player.digest,
            "samples": player.samples if self.fixed else player.samples[-1:],
        }
        self.record.tell("round", cell=self._cell(player), **entry)

    def _sample(self, player: Player, before: Message, is_last: bool) -> None:
        message = player.child.hear(self.timeout)
        if not self._expect(message, "sample", player):
            return
        if self.part.server:
            after = self.ask({"do": "cpu"})
            message["server_cpu_ns"] = max(0, after["cpu_ns"] - before["cpu_ns"] - after["cost"])
            message["counters"] = grown(before["counters"], after["counters"], after["own"])
        player.samples.append(message)
        if not is_last:  # the next player begins once this one has cleaned up
            self._expect(player.child.hear(self.timeout), "ready", player)

    def _end(self, player: Player) -> None:
        """Let a worker close its client, and check its writes."""
        if not self.fixed:
            player.child.tell({"go": False})
        message = player.child.hear(self.timeout)
        if not self._expect(message, "done", player):
            return
        if message["close_ns"] is not None:
            self.record.tell("closed", cell=self._cell(player), ns=message["close_ns"])
        if (written := message["written"]) is not None:
            seen = self.ask({"do": "inspect", "collection": player.scratch})
            if seen["count"] != written:
                self._fail(player, f"wrote {written}, the collection holds {seen['count']}")
                return
            self._digest(f"{self.named.id} written", player, seen["digest"])
        if other := other_concern(self.part.write_concern, player.samples):
            self._fail(player, f"asked to write with {self.part.write_concern}, {other}")
            return
        self._digest(self.named.id, player, player.digest)

    def _digest(self, kind: str, player: Player, digest: str) -> None:
        self.round.digests.setdefault(kind, {})[player.contender.id] = digest

    def _expect(self, message: Message, event: str, player: Player) -> bool:
        """Return whether the message is the expected one; if not, the player leaves this part."""
        if message["event"] == event:
            return True
        reason = f"expected {event!r} of a worker, heard {message['event']!r}"
        if message["event"] == "failed":
            reason = f"{message['reason']} at {message['where']}"
        self._fail(player, reason)
        return False

    def _guarded(self, player: Player, call: Callable[[], Any]) -> None:
        """Call unless the player has left; end a player that fails."""
        if player.out:
            return
        try:
            call()
        except ChildError as error:
            self._fail(player, str(error))
            player.child.process.kill()

    def _fail(self, player: Player, reason: str) -> None:
        player.out = True
        self.record.tell("failure", cell=self._cell(player), reason=f"round {self.first + 1}: {reason}")

    def _cell(self, player: Player) -> Key:
        return self.record.cell(self.experiment, self.named, player.contender)

    def _is_narrow(self) -> bool:
        """Return whether every ratio to the reference is precise enough."""
        samples = {player.contender.id: player.samples for player in self._playing()}
        wanted = (*(self.experiment.references or registry.REFERENCES), *samples)
        base = next(samples[name] for name in wanted if name in samples)
        judge = {"client": "cpu_ns", "user": "user_ns"}.get(self.part.judge, "wall_ns")
        return all(half_width(_logs(each, base, judge)) <= NARROW for each in samples.values())


def _logs(samples: Iterable[Message], base: Iterable[Message], judge: str) -> list[float]:
    def each(message: Message) -> float:
        return math.log(max(float(message[judge]), 1.0) / max(1, int(message["ops"])))

    return [each(one) - each(other) for one, other in zip(samples, base, strict=False)]


def grown(before: dict[str, int], after: dict[str, int], own: dict[str, int]) -> dict[str, int]:
    """Return how much the server's counters grew, without the effect of reading them."""
    found = {name: after[name] - before.get(name, 0) - own.get(name, 0) for name in after}
    return {name: count for name, count in found.items() if count > 0}


def other_concern(asked: str, samples: list[Message]) -> str:
    """Return the write concern that the server saw if it is not the part's, otherwise "".

    A server without the parameter reportOpWriteConcernCountersInServerStatus does not count write concerns.
    """
    seen: dict[str, int] = {}
    for sample in samples:
        for name, count in sample.get("counters", {}).items():
            if name.startswith("w:"):
                concern = name.rpartition(" ")[0]
                seen[concern] = seen.get(concern, 0) + count
    total = sum(seen.values())
    other = {concern: count for concern, count in seen.items() if concern != asked}
    if not asked.startswith("w:") or not total or sum(other.values()) <= DRIFT * total:
        return ""
    return "the server saw " + ", ".join(f"{count} writes with {concern}" for concern, count in other.items())


def disagreeing(found: dict[str, str], references: tuple[str, ...] = registry.REFERENCES) -> list[str]:
    """Return who differs from the reference's digest, or from the majority's if no reference played."""
    if len(set(found.values())) < 2:
        return []
    values = list(found.values())
    named = next((found[name] for name in references if name in found), None)
    right = named if named is not None else max(values, key=values.count)
    return [name for name, digest in found.items() if digest != right]
