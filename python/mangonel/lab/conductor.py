"""Plays contenders against each other: rounds in shuffled order, one worker process per contender and round.

Never imports a peer. What it keeps is raw: every sample of every round; tables are made from that. What happens is
told to the record as it happens, so a run that is cut off keeps what it has; one failing experiment ends itself only.
"""

from __future__ import annotations

import dataclasses
import random
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from mangonel.lab import registry, sentinel
from mangonel.lab.contender import Contender
from mangonel.lab.delay import Delay
from mangonel.lab.experiment import Experiment, Part
from mangonel.lab.noise import marked_rounds
from mangonel.lab.protocol import Child, ChildError, Message
from mangonel.lab.record import Cell, Plan, Record

__all__ = ["Cell", "Conductor", "Plan", "Progress", "Record", "disagreeing", "line_up"]

WORKER = "mangonel.lab.worker"
CLERK = "mangonel.lab.clerk"
FAILED_ROUNDS = 2  # of one experiment, as a whole, before it is left out
CALM_TRIES, CALM_S = 3, 0.5  # waiting for a busy machine before a round
CLERKS_PATIENCE = 60.0  # seconds at least; only workers are in a hurry
DRIFT = (
    0.1  # share of a contender's writes that may carry another write concern: what a mapper's setup writes
)


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
    parts = experiment.parts(plan.size)
    doubled = experiment.references or registry.REFERENCES
    for name in plan.contenders:
        contender = registry.contender(name)
        if all(part.excludes(contender) for part in parts):
            continue
        if reason := contender.missing():
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
            self._count(chosen)
            costs: dict[str, float] = {}
            for number in range(plan.rounds):
                for experiment in chosen:
                    cost = costs.get(experiment.id, 0.0)
                    if number and (self._is_over(cost) or self._is_enough(experiment, number, cost)):
                        continue
                    costs[experiment.id] = self._whole_round(experiment, number)
            self._again(chosen, costs)
            self._ask({"do": "drop"})
            record.end("complete")
        except KeyboardInterrupt:
            record.end("interrupted")
            raise
        finally:
            self._reap()
            for delay in self._delays:
                delay.close()
            self._clerk.finish()
        return record

    def _greet_clerk(self) -> None:
        self._ask({"uri": self._plan.uri, "database": self._plan.database})

    def _ask(self, message: Message) -> Message:
        return self._clerk.ask(message, max(CLERKS_PATIENCE, self._plan.patience))

    def _prepare(self) -> list[Experiment]:
        """Fill the data sets and return the experiments that can be played."""
        known = registry.experiments()
        chosen = [known[name] for name in self._plan.experiments]
        for dataset in dict.fromkeys(experiment.dataset for experiment in chosen if experiment.dataset):
            try:
                told = self._clerk.ask({"do": "prepare", "dataset": dataset}, 300)
                if told["count"] != told["expected"]:
                    raise ChildError(f"expected {told['expected']} documents, found {told['count']}")
            except ChildError as error:
                for experiment in [each for each in chosen if each.dataset == dataset]:
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
        return bool(self._plan.budget) and 0 < experiment.short_budget < (played + 1) * cost

    def _whole_round(self, experiment: Experiment, number: int, instead_of: int | None = None) -> float:
        """Play a round, whatever it raises, and return the seconds it took."""
        begun = time.monotonic()
        if self._failed.get(experiment.id, 0) >= FAILED_ROUNDS:
            return 0.0
        try:
            self._round(experiment, number, instead_of)
        except Exception as error:
            self._failed[experiment.id] = self._failed.get(experiment.id, 0) + 1
            where = traceback.extract_tb(error.__traceback__)[-1]
            reason = (
                f"round {number + 1}: {type(error).__name__}: {error} ({where.name}, line {where.lineno})"
            )
            self.record.miss(experiment.id, "", reason)
            self._reap()
            self._renew_clerk()
        return time.monotonic() - begun

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
            cost = costs.get(name, 0.0)
            rounds = self._plan.rounds + extra[name]
            over = self._is_over(cost) or self._is_enough(by_name[name], rounds, cost)
            over = over or (time.monotonic() - self._started + cost > 1.5 * spent)
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
                self._play(experiment, contender, setting, number, position, digests)
            for part in experiment.parts(self._plan.size):
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
    ) -> None:
        plan = self._plan
        scratch = f"scratch_{experiment.id}_{contender.id}_{number}".replace("#", "_")
        child = Child(WORKER, contender.environment)
        current: Part | None = None
        try:
            hello = child.ask(
                {
                    "experiment": experiment.id,
                    "contender": contender.id,
                    "uri": setting.uri,
                    "database": plan.database,
                    "collection": experiment.dataset or scratch,
                    "quick": plan.size.quick,
                    "parameters": plan.size.parameters,
                    # The same for all contenders of a round: they do the same work in the same order.
                    "seed": plan.seed + number,
                    "plant": plan.plants.get(contender.id, 0.0),
                },
                plan.patience,
            )
            if hello["event"] == "missing":
                self._miss(experiment, contender.id, hello["reason"])
                return
            self.record.meet(hello["versions"], hello.get("builds", {}))
            for current in experiment.parts(plan.size):
                if not current.excludes(contender):
                    cell = self.record.cell(experiment, setting.of(current), contender)
                    self._part(child, current, cell, number, position, scratch, digests)
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
        message = child.ask({"part": part.id}, self._plan.patience)
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


def grown(before: dict[str, int], after: dict[str, int], own: dict[str, int]) -> dict[str, int]:
    """Return by how much the server's counters grew, without what asking for them adds."""
    found = {name: after[name] - before.get(name, 0) - own.get(name, 0) for name in after}
    return {name: count for name, count in found.items() if count > 0}


def other_concern(asked: str, samples: list[Message]) -> str:
    """Return which write concern the server saw instead of the one a part states, or "".

    A server that does not count write concerns (its parameter reportOpWriteConcernCountersInServerStatus) says nothing.
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
    """Return whose digest is not the reference's, or not the majority's when no reference took part."""
    if len(set(found.values())) < 2:
        return []
    values = list(found.values())
    named = next((found[name] for name in references if name in found), None)
    right = named if named is not None else max(values, key=values.count)
    return [name for name, digest in found.items() if digest != right]
