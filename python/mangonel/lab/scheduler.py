"""Runs contenders against each other: one scheduler with two policies.

By rounds: each contender has one process per round, which takes all its samples. Rounds continue while the budget
lasts, and disturbed ones are repeated. Interleaved, for a short time: each contender has one process, and each pass
takes one sample of all contenders in a new order, so that compared samples lie within seconds of each other; every
experiment has a share of the time. This cannot show how a contender varies from process to process.

Never imports a contender's driver. It keeps every raw sample. Events are recorded as they happen, so an interrupted run
keeps its data. An experiment that fails ends only itself.
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
from mangonel.lab.contender import Contender
from mangonel.lab.experiment import Experiment, Part
from mangonel.lab.protocol import Child, ChildError, Message
from mangonel.lab.record import Plan, Record
from mangonel.lab.samples import Player, Round, Samples, disagreeing
from mangonel.lab.statistics import median

WORKER, FIXTURES = "mangonel.lab.worker", "mangonel.lab.fixtures"
FIXTURES_TIMEOUT = 60.0  # minimum seconds, even if workers have less
FAILED_ROUNDS = 2  # failed rounds of one experiment until it is left out
LATE = 1.3  # multiple of its share of the time beyond which only few contenders play the next experiment
AGAIN_SHARE = 0.5  # share of the run's time that repeated rounds may take in addition
# Waiting for a quiet machine before a round; a busy machine affects an interleaved round's contenders alike.
CALM_TRIES, CALM_S = 3, 0.5


@dataclass(frozen=True)
class Progress:
    """The progress of a run; `left_s`: estimated seconds until the end."""

    text: str
    done: int
    total: int
    left_s: float | None


@dataclass(frozen=True)
class Setting:
    """The deployment for contenders: as it is, or behind a delay of some milliseconds."""

    uri: str
    delay_ms: float = 0.0

    def of(self, part: Part) -> Part:
        if not self.delay_ms:
            return part
        id, title = f"{part.id}@{self.delay_ms:g}ms", f"{part.title}, {self.delay_ms:g} ms away"
        return dataclasses.replace(part, id=id, title=title)


def line_up(
    experiment: Experiment, plan: Plan, *, lean: bool = False
) -> tuple[list[Contender], list[tuple[str, str]]]:
    """Return an experiment's contenders, the references (or all of them) twice, and the absent ones with reasons.

    A lean cast is the first two and the last, once each: ours, the best-known peer, and the lower bound.
    """
    playing, absent = [], []
    parts = plan.parts(experiment)
    doubled = experiment.references or registry.REFERENCES
    cast = list(plan.cast.get(experiment.id, plan.contenders))
    for name in cast:
        contender = registry.contender(name)
        if all(part.excludes(contender) for part in parts):
            continue
        short = "left out: time was short" if lean and name not in (*cast[:2], cast[-1]) else ""
        if reason := experiment.leaves_out(contender, plan.size) or contender.missing() or short:
            absent.append((name, reason))
            continue
        playing.append(contender)
        if plan.twice or (name in doubled and not lean):
            playing.append(registry.again(contender))
    return playing, absent


class Scheduler:
    """Runs a plan, and reports its progress to `say`."""

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
        self._interleaved = plan.size.brief
        self._out: set[tuple[str, str]] = set()
        self._failed: dict[str, int] = {}
        self._leaving: list[tuple[Child, dict[str, Any]]] = []
        self._staff: dict[str, Child] = {}  # by contender: workers who stay from experiment to experiment
        self._settings: list[Setting] = []
        self._delays: list[Delay] = []
        self._started = time.monotonic()
        self._done = self._total = 0
        self._best_loop = math.inf

    def run(self) -> Record:
        """Play all rounds, or as many as the budget allows; ChildError if the deployment cannot be reached."""
        self._fixtures = Child(FIXTURES)
        try:
            self._greet()
            self.record.describe(self._ask({"do": "describe"}))
            chosen = self._prepare()
            self._open_settings()
            if self._interleaved:
                self._share_time(chosen)
            else:
                self._play_rounds(chosen)
            self._ask({"do": "drop"})
            self.record.end("complete")
        except KeyboardInterrupt:
            self.record.end("interrupted")
            raise
        finally:
            self._dismiss_staff()
            for delay in self._delays:
                delay.close()
            self._fixtures.finish()
        return self.record

    # The two policies.

    def _play_rounds(self, chosen: list[Experiment]) -> None:
        plan, costs, seldom = self._plan, dict[str, float](), dict[tuple[str, int], float]()
        for experiment in chosen:
            with contextlib.suppress(Exception):
                self._total += plan.rounds * len(line_up(experiment, plan)[0]) * len(self._settings)
        for number in range(plan.rounds):
            for experiment in chosen:
                cost = costs.get(experiment.id, 0.0)
                if number and (self._is_over(cost) or self._is_enough(experiment, number, cost)):
                    continue
                seconds, rare = self._round(Round(experiment, number))
                # Parts with few rounds are only in the first ones; the next round will be the shortest.
                costs[experiment.id], seldom[experiment.id, number] = seconds - rare, rare
        extra = dict.fromkeys((experiment.id for experiment in chosen), 0)
        spent = self._spent()
        # Whole rounds that began or ran on a busy machine; replacing a single cell would break the pairing.
        for name, number in self.record.content()["marked"]:
            experiment = next(each for each in chosen if each.id == name)
            cost, rounds = costs.get(name, 0.0) + seldom.get((name, number), 0.0), plan.rounds + extra[name]
            over = self._is_over(cost) or self._is_enough(experiment, rounds, cost)
            if over or self._spent() + cost > (1 + AGAIN_SHARE) * spent or extra[name] >= plan.again:
                continue
            self._round(Round(experiment, rounds, instead_of=number))
            extra[name] += 1

    def _share_time(self, chosen: list[Experiment]) -> None:
        """Play interleaved: each experiment gets a share of the remaining time, by its minimum duration."""
        plan = self._plan
        # Long experiments come last: if time is short, few are left out.
        chosen = sorted(chosen, key=lambda experiment: experiment.brief_s)
        turns = [Round(experiment, number) for number in range(plan.rounds) for experiment in chosen]
        weights = [each.experiment.brief_s for each in turns]
        self._total = sum(len(plan.parts(each.experiment)) for each in turns) * len(self._settings)
        need = 0.0  # seconds per unit of weight, from the slowest experiment that exceeded its share
        for place, each in enumerate(turns):
            left = plan.budget - self._spent() if plan.budget else math.inf
            if left <= 0 and not plan.all_of_them:
                again = " again" if each.number else ""
                why = f"the {plan.budget:.0f} s were used up before its turn"
                self.record.tell("note", text=f"{each.experiment.id} was not played{again}: {why}")
                continue
            share = left * weights[place] / sum(weights[place:])
            each.lean = plan.all_of_them and need * weights[place] > LATE * share
            each.until = time.monotonic() + share
            seconds, _ = self._round(each)
            if seconds > share and not each.lean:
                need = max(need, seconds / weights[place])
        self._dismiss_staff()

    # One round of one experiment, by either policy.

    def _round(self, this: Round) -> tuple[float, float]:
        """Play a round, catching all errors; return its seconds, and those of parts that the next one lacks."""
        begun = time.monotonic()
        experiment = this.experiment
        if self._failed.get(experiment.id, 0) >= FAILED_ROUNDS:
            return 0.0, 0.0
        try:
            with self._placed(experiment):
                self._whole_round(this)
        except Exception as error:
            self._failed[experiment.id] = self._failed.get(experiment.id, 0) + 1
            where = traceback.extract_tb(error.__traceback__)[-1]
            reason = f"{type(error).__name__}: {error} ({where.name}, line {where.lineno})"
            self._miss(experiment, "", f"round {this.number + 1}: {reason}")
            self._dismiss_staff()
            if self._fixtures.process.poll() is not None:
                self._fixtures.finish()
                self._fixtures = Child(FIXTURES)
                self._greet()
        return time.monotonic() - begun, this.seldom_s

    def _whole_round(self, this: Round) -> None:
        experiment, plan = this.experiment, self._plan
        playing, absent = line_up(experiment, plan, lean=this.lean)
        for name, reason in absent:
            self._miss(experiment, name, reason)
        playing = [c for c in playing if (experiment.id, c.id) not in self._out]
        self._shuffle.shuffle(playing)
        look, ticks = self._wait_for_calm(), sentinel.ticks()
        begun = time.monotonic()
        at_once = experiment.together if self._interleaved else experiment.paired
        groups = [playing] if at_once else [[contender] for contender in playing]
        turns = len(groups) * len(self._settings)
        for place, (setting, group) in enumerate((s, g) for s in self._settings for g in groups):
            end = begun + (this.until - begun) * (place + 1) / turns
            with tempfile.TemporaryDirectory(prefix="mangonel-lab-") as shared:
                players = self._seat(this, group, setting, shared if self._interleaved else "")
                try:
                    self._play_parts(this, players, setting, end, place)
                finally:
                    self._leave(this, players)
        for setting in self._settings:
            for part in map(setting.of, plan.parts(experiment)):
                for kind in (part.id, f"{part.id} written"):
                    self._compare(this, part.id, this.digests.get(kind, {}))
        if not self._staff:
            self._reap()
        look["stolen"] = round(sentinel.stolen(ticks, sentinel.ticks()), 4)
        for number, looks in this.looks.items() if self._interleaved else [(this.number, [look["loop_ns"]])]:
            self.record.tell(
                "played",
                experiment=experiment.id,
                round=number,
                contenders=[contender.id for contender in playing],
                seconds=round((time.monotonic() - begun) / max(1, len(this.looks)), 3),
                sentinel={**look, "loop_ns": median(looks)},
                instead_of=this.instead_of,
            )

    def _play_parts(
        self, this: Round, players: list[Player], setting: Setting, end: float, place: int
    ) -> None:
        experiment, interleaved = this.experiment, self._interleaved
        parts = [part for part in self._plan.parts(experiment) if interleaved or part.is_due(this.turn)]
        for turn, part in enumerate(parts):
            if interleaved and not place:
                self._report(this, part.title)
            mine = [p for p in players if not part.excludes(p.contender) and p.child.process.poll() is None]
            position = place if len(players) == 1 else 0
            begun = time.monotonic()
            Samples(this, part, setting.of(part), mine, self.record, self._ask, self._shuffle, position).take(
                begun + (end - begun) / (len(parts) - turn)
            )
            if part.rounds == this.turn + 1:
                this.seldom_s += time.monotonic() - begun

    def _seat(self, this: Round, group: list[Contender], setting: Setting, shared: str) -> list[Player]:
        """Give every contender a worker; reuse its earlier one if policy and experiment allow that."""
        experiment, number = this.experiment, this.number
        players = []
        for contender in group:
            if not self._interleaved:
                self._report(this, contender.title)
            scratch = f"scratch_{experiment.id}_{contender.id}_{number}".replace("#", "_")
            child = None if experiment.own_process else self._staff.pop(contender.id, None)
            # One hash seed for a whole round, so that it is the same for all.
            seed = {"PYTHONHASHSEED": str((self._plan.seed + number) % 2**32)}
            player = Player(contender, child or Child(WORKER, {**seed, **contender.environment}), scratch)
            players.append(player)
            with contextlib.suppress(ChildError):  # the error appears when its answer is read
                player.child.tell({**self._order(this, contender, setting, scratch), "shared": shared})
        seated = []
        for player in players:
            name = player.contender.id
            try:
                hello = player.child.hear(self._plan.timeout)
            except ChildError as error:
                self._miss(experiment, name, str(error))
                player.child.process.kill()
                self._dismiss(player.child, experiment.id, name, number)
                continue
            if hello["event"] == "missing":
                self._miss(experiment, name, hello["reason"])
                self._leave(this, [player])
                continue
            self.record.tell_once("versions", versions=hello["versions"], builds=hello["builds"])
            seated.append(player)
        return seated

    def _order(self, this: Round, contender: Contender, setting: Setting, scratch: str) -> Message:
        plan, experiment = self._plan, this.experiment
        where = plan.equipment if experiment.loads_site else None
        return {
            "experiment": experiment.id,
            "contender": contender.id,
            "uri": setting.uri,
            "database": plan.database,
            "collection": experiment.filled(plan.size) or scratch,
            "scratch": scratch,
            "size": dataclasses.asdict(plan.size),
            # The same for all contenders of a round: they do the same work in the same order.
            "seed": plan.seed + this.number,
            "plant": plan.plants.get(contender.id, 0.0),
            "places": dataclasses.asdict(where.places) if where is not None else None,
        }

    def _leave(self, this: Round, players: list[Player]) -> None:
        """End the workers, or keep them for the next experiment."""
        for player in players:
            name, child = player.contender.id, player.child
            stays = self._interleaved and not this.experiment.own_process and child.process.poll() is None
            if stays and name not in self._staff:
                self._staff[name] = child
            else:
                # Some drivers sleep half a second at exit; the next worker need not wait for that.
                self._dismiss(child, this.experiment.id, name, this.number)
        if self._interleaved and this.experiment.own_process:
            self._reap()

    # Failures.

    def _compare(self, this: Round, part: str, found: dict[str, str]) -> None:
        """Fail every contender whose digest differs from the reference's, or from the majority's."""
        for name in disagreeing(found, this.experiment.references or registry.REFERENCES):
            reason = f"round {this.number + 1}: another answer than the others, digest {found[name]}"
            self.record.tell("failure", cell=(this.experiment.id, part, name), reason=reason)

    def _miss(self, experiment: Experiment, name: str, reason: str) -> None:
        self.record.tell_once("missing", experiment=experiment.id, contender=name, reason=reason)
        self._out.add((experiment.id, name))

    # Workers and fixtures.

    def _dismiss(self, child: Child, experiment: str, contender: str, number: int) -> None:
        child.channel.close()
        self._leaving.append((child, {"experiment": experiment, "contender": contender, "round": number}))

    def _dismiss_staff(self) -> None:
        while self._staff:
            name, child = self._staff.popitem()
            self._dismiss(child, "", name, 0)
        self._reap()

    def _reap(self) -> None:
        for child, name in self._leaving:
            self.record.tell("exit", **name, **child.finish())
        self._leaving.clear()

    def _greet(self) -> None:
        self._ask({"uri": self._plan.uri, "database": self._plan.database})

    def _ask(self, message: Message) -> Message:
        return self._fixtures.ask(message, max(FIXTURES_TIMEOUT, self._plan.timeout))

    def _prepare(self) -> list[Experiment]:
        """Fill the data sets and return the experiments that can be played."""
        known, size = registry.experiments(), self._plan.size
        chosen = [known[name] for name in self._plan.experiments]
        for dataset in dict.fromkeys(e.filled(size) for e in chosen if e.filled(size)):
            try:
                told = self._fixtures.ask({"do": "prepare", "dataset": dataset}, 300)
                if told["count"] != told["expected"]:
                    raise ChildError(f"expected {told['expected']} documents, got {told['count']}")
            except ChildError as error:
                for experiment in [each for each in chosen if each.filled(size) == dataset]:
                    self._miss(experiment, "", f"data set {dataset}: {error}")
                    chosen.remove(experiment)
        for experiment in chosen:
            with contextlib.suppress(Exception):  # a broken experiment fails in its round
                self._build(experiment)
        return chosen

    def _build(self, experiment: Experiment) -> None:
        for contender in line_up(experiment, self._plan)[0]:
            try:
                contender.prepare()
            except Exception as error:
                self._miss(experiment, contender.id, f"{type(error).__name__}: {error}")

    def _open_settings(self) -> None:
        for delay_ms in self._plan.delays_ms:
            if not delay_ms:
                self._settings.append(Setting(self._plan.uri))
                continue
            from mangonel.lab.contenders._wire import address

            host, port = address(self._plan.uri)
            if host not in ("127.0.0.1", "localhost"):
                self.record.tell(
                    "note", text=f"no latency of {delay_ms:g} ms: the delay works before a local server only"
                )
                continue
            delay = Delay(port, delay_ms / 2)
            self._delays.append(delay)
            uri = f"mongodb://127.0.0.1:{delay.port}/?directConnection=true"
            self._settings.append(Setting(uri, delay_ms))

    def _placed(self, experiment: Experiment) -> contextlib.AbstractContextManager[None]:
        """Pin the servers off the site's cores within this block, if the experiment has a site."""
        where = self._plan.equipment
        if where is None or not experiment.loads_site:
            return contextlib.nullcontext()
        return where.placed(delay.pid for delay in self._delays)

    # Time.

    def _spent(self) -> float:
        return time.monotonic() - self._started

    def _is_over(self, cost: float) -> bool:
        return bool(self._plan.budget) and self._spent() + cost > self._plan.budget

    def _is_enough(self, experiment: Experiment, played: int, cost: float) -> bool:
        """Return whether one more round exceeds the experiment's budget in the short form."""
        is_short = self._plan.size.quick and bool(self._plan.budget)
        return is_short and 0 < experiment.short_budget < (played + 1) * cost

    def _wait_for_calm(self) -> dict[str, Any]:
        look = sentinel.look()
        for _ in range(0 if self._interleaved else CALM_TRIES):
            if look["loop_ns"] <= sentinel.DISTURBED * self._best_loop:
                break
            time.sleep(CALM_S)
            look = sentinel.look()
        self._best_loop = min(self._best_loop, look["loop_ns"])
        return {**look, **self._ask({"do": "pings"})}

    def _report(self, this: Round, text: str) -> None:
        spent, budget = self._spent(), self._plan.budget
        left = spent / self._done * max(0, self._total - self._done) if self._done else None
        if budget and (left is not None or self._interleaved):
            left = max(
                0.0, budget - spent if left is None or self._interleaved else min(left, budget - spent)
            )
        name = this.experiment.id if self._interleaved else f"{this.experiment.id}, round {this.number + 1}"
        again = "" if this.instead_of is None else " again"
        self._say(Progress(f"{name}{again}: {text}", self._done, max(self._total, self._done + 1), left))
        self._done += 1
