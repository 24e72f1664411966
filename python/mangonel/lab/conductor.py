"""Plays contenders against each other: rounds in shuffled order, one worker process per contender and round.

Never imports a peer. What it keeps is raw: every sample of every round; tables are made from that. What happens is
told to the record as it happens, so a run that is cut off keeps what it has; one failing experiment ends itself only.
"""

from __future__ import annotations

import contextlib
import dataclasses
import math
import random
import tempfile
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from mangonel.engines.delay import Delay
from mangonel.lab import registry, sentinel
from mangonel.lab.checks import disagreeing, grown, other_concern
from mangonel.lab.contender import Contender
from mangonel.lab.experiment import Experiment, Part
from mangonel.lab.noise import marked_rounds
from mangonel.lab.protocol import Child, ChildError, Message
from mangonel.lab.record import Cell, Plan, Record
from mangonel.lab.sitting import Player, Sitting
from mangonel.lab.statistics import median

__all__ = ["Cell", "Conductor", "Plan", "Progress", "Record", "line_up"]

WORKER = "mangonel.lab.worker"
CLERK = "mangonel.lab.clerk"
FAILED_ROUNDS = 2  # of one experiment, as a whole, before it is left out
AGAIN_SHARE = 0.5  # of the run's time, which rounds that are played again may take on top
CALM_TRIES, CALM_S = 3, 0.5  # waiting for a busy machine before a round
CLERKS_PATIENCE = 60.0  # seconds at least; only workers are in a hurry


@dataclass(frozen=True)
class Progress:
    """Where a run stands.

    Attributes:
        left_s: seconds until the end as far as they can be foreseen, or None at the beginning.
    """

    text: str
    done: int
    total: int
    left_s: float | None


@dataclass(frozen=True)
class _Setting:
    """Where one play takes place: the deployment as it is, or behind a line of some milliseconds."""

    uri: str
    delay_ms: float = 0.0

    def of(self, part: Part) -> Part:
        """Return the part as tables name it."""
        if not self.delay_ms:
            return part
        away = f"{self.delay_ms:g} ms"
        return dataclasses.replace(
            part, id=f"{part.id}@{away.replace(' ', '')}", title=f"{part.title}, {away} away"
        )


def line_up(experiment: Experiment, plan: Plan) -> tuple[list[Contender], list[tuple[str, str]]]:
    """Return who plays an experiment, the references (or everybody) twice, and who does not with the reason."""
    playing, absent = [], []
    parts = plan.parts(experiment)
    doubled = experiment.references or registry.REFERENCES
    for name in plan.contenders:
        contender = registry.contender(name)
        if all(part.excludes(contender) for part in parts):
            continue
        if reason := experiment.leaves_out(contender, plan.size) or contender.missing():
            absent.append((name, reason))
            continue
        playing.append(contender)
        if plan.twice or name in doubled:
            playing.append(registry.again(contender))
    return playing, absent


class Conductor:
    """Runs a plan. `say` is told how far it is."""

    def __init__(
        self,
        plan: Plan,
        say: Callable[[Progress], None] = lambda progress: None,
        record: Record | None = None,
    ) -> None:
        self.record = record or Record(plan)
        self._plan = plan
        self._say = say
        self._shuffle = random.Random(plan.seed)
        self._out: set[tuple[str, str]] = set()
        self._failed: dict[str, int] = {}
        self._leaving: list[tuple[Child, dict[str, Any]]] = []
        self._settings: list[_Setting] = []
        self._delays: list[Delay] = []
        self._started = time.monotonic()
        self._done = self._total = 0
        self._best_loop = float("inf")
        # Seconds that parts took which the next round has not, by experiment and round.
        self._seldom: dict[tuple[str, int], float] = {}
        self._staff: dict[str, Child] = {}  # by contender, who stay from experiment to experiment
        self._clerk = Child(CLERK)

    def run(self) -> Record:
        """Play all rounds, or as many as the budget allows, and return the record.

        Raises:
            ChildError: the deployment cannot be reached. Experiments that fail are in the record instead.
        """
        plan, record = self._plan, self.record
        try:
            self._greet_clerk()
            record.describe(self._ask({"do": "describe"}))
            chosen = self._prepare()
            self._open_settings()
            if plan.size.brief:
                self._sit_down(chosen)
            else:
                self._play_rounds(chosen)
            self._ask({"do": "drop"})
            record.end("complete")
        except KeyboardInterrupt:
            record.end("interrupted")
            raise
        finally:
            self._dismiss_staff()
            for delay in self._delays:
                delay.close()
            self._clerk.finish()
        return record

    def _play_rounds(self, chosen: list[Experiment]) -> None:
        plan = self._plan
        self._count(chosen)
        costs: dict[str, float] = {}
        for number in range(plan.rounds):
            for experiment in chosen:
                cost = costs.get(experiment.id, 0.0)
                if number and (self._is_over(cost) or self._is_enough(experiment, number, cost)):
                    continue
                seconds = self._whole_round(experiment, number)
                # Parts of few rounds are in the first ones only; the next round is as short as it will be.
                costs[experiment.id] = seconds - self._seldom.get((experiment.id, number), 0.0)
        self._again(chosen, costs)

    def _sit_down(self, chosen: list[Experiment]) -> None:
        """Play sittings: each experiment with its share of the time that is left, by how long it takes at least."""
        plan = self._plan
        # What takes long comes last: when time is short, little goes without.
        chosen = sorted(chosen, key=lambda experiment: experiment.brief_s)
        turns = [(experiment, number) for number in range(plan.rounds) for experiment in chosen]
        weights = [experiment.brief_s for experiment, _ in turns]
        self._total = sum(len(plan.parts(e)) for e, _ in turns) * len(self._settings)
        for place, (experiment, number) in enumerate(turns):
            left = math.inf
            if plan.budget:
                left = plan.budget - (time.monotonic() - self._started)
                if left <= 0:
                    self.record.note(
                        f"{experiment.id} was not played again: the time was used up"
                        if number
                        else f"{experiment.id} was NOT PLAYED: the {plan.budget:.0f} s were used up before its turn"
                    )
                    continue
            share = left * weights[place] / sum(weights[place:])
            try:
                with self._placed(experiment):
                    self._sit(experiment, number, time.monotonic() + share)
            except Exception as error:
                self._give_up(experiment, number, error)
                self._dismiss_staff()
        self._dismiss_staff()

    def _sit(self, experiment: Experiment, number: int, until: float) -> None:
        playing, absent = line_up(experiment, self._plan)
        for name, reason in absent:
            self._miss(experiment, name, reason)
        playing = [c for c in playing if (experiment.id, c.id) not in self._out]
        self._shuffle.shuffle(playing)
        look, ticks = self._wait_for_calm(), sentinel.ticks()
        begun = time.monotonic()
        sitting = Sitting(experiment, self.record, self._ask, self._shuffle, number, self._plan.patience)
        groups = [playing] if experiment.together else [[contender] for contender in playing]
        parts = self._plan.parts(experiment)
        digests: dict[str, dict[str, str]] = {}
        for setting in self._settings:
            for place, group in enumerate(groups):
                end = begun + (until - begun) * (place + 1) / len(groups)
                with tempfile.TemporaryDirectory(prefix="mangonel-lab-") as shared:
                    players = self._seat(experiment, group, setting, number, shared)
                    try:
                        for turn, part in enumerate(parts, 1):
                            self._tell_part(experiment, part, turn == len(parts) and place)
                            mine = [p for p in players if not part.excludes(p.contender)]
                            now = time.monotonic()
                            stop = now + (end - now) / (len(parts) - turn + 1)
                            seen = sitting.play(part, setting.of(part), mine, experiment.passes, stop)
                            for kind, found in seen.items():
                                digests.setdefault(
                                    setting.of(part).id + kind.removeprefix(part.id), {}
                                ).update(found)
                    finally:
                        self._leave_table(experiment, players, number)
            for part in parts:
                for kind in ("", " written"):
                    named = setting.of(part)
                    self._compare(experiment, named, number, digests.get(named.id + kind, {}))
        stolen = round(sentinel.stolen(ticks, sentinel.ticks()), 4)
        for turn, looks in sitting.looks.items():
            self.record.play(
                {
                    "experiment": experiment.id,
                    "round": turn,
                    "contenders": [contender.id for contender in playing],
                    "seconds": round((time.monotonic() - begun) / len(sitting.looks), 3),
                    "sentinel": {**look, "loop_ns": median(looks), "stolen": stolen},
                    "instead_of": None,
                }
            )

    def _seat(
        self, experiment: Experiment, group: list[Contender], setting: _Setting, number: int, shared: str
    ) -> list[Player]:
        """Give every contender a worker, the one that it has already where the experiment allows that."""
        plan = self._plan
        players = []
        for contender in group:
            scratch = f"scratch_{experiment.id}_{contender.id}_{number}".replace("#", "_")
            child = None if experiment.own_process else self._staff.pop(contender.id, None)
            if child is None:
                child = Child(WORKER, self._environment(contender, number))
            player = Player(contender, child, scratch)
            players.append(player)
            order = self._order(experiment, contender, setting, number, scratch)
            try:
                child.tell({**order, "shared": shared})
            except ChildError as error:
                self._miss(experiment, contender.id, str(error))
                player.child.kill()
        seated = []
        for player in players:
            name = player.contender.id
            try:
                hello = player.child.hear(plan.patience)
            except ChildError as error:
                self._miss(experiment, name, str(error))
                player.child.kill()
                self._leaving.append((player.child, self._exit_name(experiment, name, number)))
                continue
            if hello["event"] == "missing":
                self._miss(experiment, name, hello["reason"])
                self._staff[name] = player.child
                continue
            self.record.meet(hello["versions"], hello.get("builds", {}))
            seated.append(player)
        return seated

    def _leave_table(self, experiment: Experiment, players: list[Player], number: int) -> None:
        for player in players:
            name = player.contender.id
            if experiment.own_process or player.child.process.poll() is not None or name in self._staff:
                player.child.dismiss()
                self._leaving.append((player.child, self._exit_name(experiment, name, number)))
            else:
                self._staff[name] = player.child
        if experiment.own_process:
            self._reap()

    def _dismiss_staff(self) -> None:
        while self._staff:
            name, child = self._staff.popitem()
            child.dismiss()
            self._leaving.append((child, {"experiment": "", "contender": name, "round": 0}))
        self._reap()

    @staticmethod
    def _exit_name(experiment: Experiment, contender: str, number: int) -> dict[str, Any]:
        return {"experiment": experiment.id, "contender": contender, "round": number}

    def _environment(self, contender: Contender, number: int) -> dict[str, str]:
        """Return the worker's variables: one seed of hashes for all of a round, so that chance is the same for all."""
        seed = {"PYTHONHASHSEED": str((self._plan.seed + number) % 2**32)}
        return {**seed, **contender.environment}

    def _tell_part(self, experiment: Experiment, part: Part, again: int) -> None:
        spent = time.monotonic() - self._started
        left = max(0.0, self._plan.budget - spent) if self._plan.budget else None
        total = max(self._total, self._done + 1)
        self._say(Progress(f"{experiment.id}: {part.title}", self._done, total, left))
        self._done += not again

    def _greet_clerk(self) -> None:
        self._ask({"uri": self._plan.uri, "database": self._plan.database})

    def _ask(self, message: Message) -> Message:
        return self._clerk.ask(message, max(CLERKS_PATIENCE, self._plan.patience))

    def _prepare(self) -> list[Experiment]:
        """Fill the data sets and return the experiments that can be played."""
        known = registry.experiments()
        chosen = [known[name] for name in self._plan.experiments]
        size = self._plan.size
        for dataset in dict.fromkeys(e.filled(size) for e in chosen if e.filled(size)):
            try:
                told = self._clerk.ask({"do": "prepare", "dataset": dataset}, 300)
                if told["count"] != told["expected"]:
                    raise ChildError(f"expected {told['expected']} documents, found {told['count']}")
            except ChildError as error:
                for experiment in [each for each in chosen if each.filled(size) == dataset]:
                    self.record.miss(experiment.id, "", f"data set {dataset}: {error}")
                    chosen.remove(experiment)
        return chosen

    def _open_settings(self) -> None:
        for delay_ms in self._plan.delays_ms:
            if not delay_ms:
                self._settings.append(_Setting(self._plan.uri))
                continue
            from mangonel.lab.contenders._wire import address

            host, port = address(self._plan.uri)
            if host not in ("127.0.0.1", "localhost"):
                self.record.note(f"no latency of {delay_ms:g} ms: the delay works before a local server only")
                continue
            delay = Delay(port, delay_ms / 2)
            self._delays.append(delay)
            uri = f"mongodb://127.0.0.1:{delay.port}/?directConnection=true"
            self._settings.append(_Setting(uri, delay_ms))

    def _count(self, chosen: list[Experiment]) -> None:
        for experiment in chosen:
            try:
                playing, _ = line_up(experiment, self._plan)
            except Exception:
                continue
            self._total += self._plan.rounds * len(playing) * len(self._settings)

    def _is_over(self, cost: float) -> bool:
        budget = self._plan.budget
        return bool(budget) and time.monotonic() - self._started + cost > budget

    def _is_enough(self, experiment: Experiment, played: int, cost: float) -> bool:
        """Return whether one more round is more than the experiment asks for in the short form."""
        is_short = self._plan.size.quick and bool(self._plan.budget)
        return is_short and 0 < experiment.short_budget < (played + 1) * cost

    def _whole_round(self, experiment: Experiment, number: int, instead_of: int | None = None) -> float:
        """Play a round, whatever it raises, and return the seconds it took."""
        begun = time.monotonic()
        if self._failed.get(experiment.id, 0) >= FAILED_ROUNDS:
            return 0.0
        try:
            with self._placed(experiment):
                self._round(experiment, number, instead_of)
        except Exception as error:
            self._give_up(experiment, number, error)
        return time.monotonic() - begun

    def _give_up(self, experiment: Experiment, number: int, error: Exception) -> None:
        """Note what a whole round raised, and get ready for the next one."""
        self._failed[experiment.id] = self._failed.get(experiment.id, 0) + 1
        where = traceback.extract_tb(error.__traceback__)[-1]
        reason = f"round {number + 1}: {type(error).__name__}: {error} ({where.name}, line {where.lineno})"
        self.record.miss(experiment.id, "", reason)
        self._reap()
        self._renew_clerk()

    def _renew_clerk(self) -> None:
        """Begin with a new clerk where the last one died."""
        if self._clerk.process.poll() is None:
            return
        self._clerk.finish()
        self._clerk = Child(CLERK)
        self._greet_clerk()

    def _again(self, chosen: list[Experiment], costs: dict[str, float]) -> None:
        """Play whole rounds again that began or ran on a busy machine; a single cell would break the pairing."""
        marked = marked_rounds(self.record.order, self.record.rounds())
        extra = dict.fromkeys((experiment.id for experiment in chosen), 0)
        by_name = {experiment.id: experiment for experiment in chosen}
        spent = time.monotonic() - self._started
        for name, number in marked:
            cost = costs.get(name, 0.0) + self._seldom.get((name, number), 0.0)
            rounds = self._plan.rounds + extra[name]
            over = self._is_over(cost) or self._is_enough(by_name[name], rounds, cost)
            over = over or (time.monotonic() - self._started + cost > (1 + AGAIN_SHARE) * spent)
            if over or extra[name] >= self._plan.again:
                continue
            self._whole_round(by_name[name], self._plan.rounds + extra[name], instead_of=number)
            extra[name] += 1

    def _wait_for_calm(self) -> dict[str, Any]:
        look = sentinel.look()
        for _ in range(CALM_TRIES):
            if look["loop_ns"] <= sentinel.DISTURBED * self._best_loop:
                break
            time.sleep(CALM_S)
            look = sentinel.look()
        self._best_loop = min(self._best_loop, look["loop_ns"])
        return {**look, **self._ask({"do": "pings"})}

    def _round(self, experiment: Experiment, number: int, instead_of: int | None) -> None:
        playing, absent = line_up(experiment, self._plan)
        for name, reason in absent:
            self._miss(experiment, name, reason)
        playing = [c for c in playing if (experiment.id, c.id) not in self._out]
        self._shuffle.shuffle(playing)
        look, ticks = self._wait_for_calm(), sentinel.ticks()
        begun = time.monotonic()
        for setting in self._settings:
            digests: dict[str, dict[str, str]] = {}
            for position, contender in enumerate(playing):
                self._report(experiment, number, contender, instead_of)
                turn = number if instead_of is None else instead_of
                self._play(experiment, contender, setting, number, position, digests, turn)
            for part in self._plan.parts(experiment):
                for kind in (part.id, f"{part.id} written"):
                    self._compare(experiment, setting.of(part), number, digests.get(kind, {}))
            self._reap()
        self.record.play(
            {
                "experiment": experiment.id,
                "round": number,
                "contenders": [contender.id for contender in playing],
                "seconds": round(time.monotonic() - begun, 3),
                "sentinel": {**look, "stolen": round(sentinel.stolen(ticks, sentinel.ticks()), 4)},
                "instead_of": instead_of,
            }
        )

    def _report(
        self, experiment: Experiment, number: int, contender: Contender, instead_of: int | None
    ) -> None:
        spent = time.monotonic() - self._started
        left = None
        if self._done:
            left = spent / self._done * max(0, self._total - self._done)
            if self._plan.budget:
                left = max(0.0, min(left, self._plan.budget - spent))
        again = "" if instead_of is None else " again"
        text = f"{experiment.id}, round {number + 1}{again}: {contender.title}"
        self._say(Progress(text, self._done, max(self._total, self._done + 1), left))
        self._done += 1

    def _miss(self, experiment: Experiment, name: str, reason: str) -> None:
        self.record.miss(experiment.id, name, reason)
        self._out.add((experiment.id, name))

    def _play(
        self,
        experiment: Experiment,
        contender: Contender,
        setting: _Setting,
        number: int,
        position: int,
        digests: dict[str, dict[str, str]],
        turn: int,
    ) -> None:
        plan = self._plan
        scratch = f"scratch_{experiment.id}_{contender.id}_{number}".replace("#", "_")
        child = Child(WORKER, self._environment(contender, number))
        current: Part | None = None
        try:
            hello = child.ask(self._order(experiment, contender, setting, number, scratch), plan.patience)
            if hello["event"] == "missing":
                self._miss(experiment, contender.id, hello["reason"])
                return
            self.record.meet(hello["versions"], hello.get("builds", {}))
            for current in plan.parts(experiment):
                is_due = not current.rounds or turn < current.rounds
                if is_due and not current.excludes(contender):
                    cell = self.record.cell(experiment, setting.of(current), contender)
                    begun = time.monotonic()
                    self._part(child, current, cell, number, position, scratch, digests)
                    if current.rounds == turn + 1:
                        key = (experiment.id, turn)
                        self._seldom[key] = self._seldom.get(key, 0.0) + time.monotonic() - begun
        except ChildError as error:
            if current is not None:
                cell = self.record.cell(experiment, setting.of(current), contender)
                self.record.fail(cell, f"round {number + 1}: {error}")
            else:
                self._miss(experiment, contender.id, str(error))
            child.kill()
        finally:
            # Some drivers sleep half a second at exit; the next worker need not wait for that.
            child.dismiss()
            self._leaving.append(
                (child, {"experiment": experiment.id, "contender": contender.id, "round": number})
            )

    def _order(
        self, experiment: Experiment, contender: Contender, setting: _Setting, number: int, scratch: str
    ) -> Message:
        plan = self._plan
        return {
            "experiment": experiment.id,
            "contender": contender.id,
            "uri": setting.uri,
            "database": plan.database,
            "collection": experiment.filled(plan.size) or scratch,
            "size": {"quick": plan.size.quick, "brief": plan.size.brief, "parameters": plan.size.parameters},
            # The same for all contenders of a round: they do the same work in the same order.
            "seed": plan.seed + number,
            "plant": plan.plants.get(contender.id, 0.0),
            "places": self._places(experiment),
        }

    def _places(self, experiment: Experiment) -> dict[str, Any] | None:
        where = self._plan.equipment
        return dataclasses.asdict(where.places) if where is not None and experiment.loads_site else None

    def _placed(self, experiment: Experiment) -> contextlib.AbstractContextManager[None]:
        """Keep the servers off the site's cores within this block, where the experiment has a site."""
        where = self._plan.equipment
        if where is None or not experiment.loads_site:
            return contextlib.nullcontext()
        return where.placed(delay.pid for delay in self._delays)

    def _reap(self) -> None:
        for child, name in self._leaving:
            self.record.leave({**name, **child.finish()})
        self._leaving.clear()

    def _part(
        self,
        child: Child,
        part: Part,
        cell: Cell,
        number: int,
        position: int,
        scratch: str,
        digests: dict[str, dict[str, str]],
    ) -> None:
        samples: list[Message] = []
        loop_ns = sentinel.loop_ns()
        begun = time.time()
        message = child.ask({"part": part.id, "samples": part.samples}, self._plan.patience)
        digest = ""
        before: Message = {"cpu_ns": 0, "counters": {}}
        while message["event"] != "done":
            if message["event"] == "failed":
                self.record.fail(cell, f"round {number + 1}: {message['reason']} at {message['where']}")
                return
            if message["event"] == "verified":
                digest = message["digest"]
            elif message["event"] == "sample":
                if part.server:
                    after = self._ask({"do": "cpu"})
                    message["server_cpu_ns"] = max(0, after["cpu_ns"] - before["cpu_ns"] - after["cost"])
                    message["counters"] = grown(before["counters"], after["counters"], after["own"])
                samples.append(message)
            elif message["event"] == "ready":
                if part.server:
                    before = self._ask({"do": "cpu"})
                child.tell({"go": True})
            message = child.hear(self._plan.patience)
        if (written := message["written"]) is not None:
            seen = self._ask({"do": "inspect", "collection": scratch})
            if seen["count"] != written:
                text = f"wrote {written}, the collection holds {seen['count']}"
                self.record.fail(cell, f"round {number + 1}: {text}")
                return
            digests.setdefault(f"{part.id} written", {})[cell.contender] = seen["digest"]
        if other := other_concern(part.write_concern, samples):
            self.record.fail(cell, f"round {number + 1}: asked to write with {part.write_concern}, {other}")
            return
        digests.setdefault(part.id, {})[cell.contender] = digest
        self.record.close_time(cell, message["close_ns"])
        self.record.add(
            cell,
            {
                "round": number,
                "position": position,
                "at": round(begun, 3),
                "sentinel_ns": loop_ns,
                "digest": digest,
                "samples": samples,
            },
        )

    def _compare(self, experiment: Experiment, part: Part, number: int, found: dict[str, str]) -> None:
        """Fail every contender whose digest differs from that of the reference, or of most."""
        for name in disagreeing(found, experiment.references or registry.REFERENCES):
            cell = self.record.cells[experiment.id, part.id, name]
            text = f"another answer than the others, digest {found[name]}"
            self.record.fail(cell, f"round {number + 1}: {text}")
