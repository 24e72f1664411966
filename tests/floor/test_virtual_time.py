"""Each flow in virtual time, interrupted at each of its steps, and pairs of flows side by side, chosen by a seed.

Nothing here waits: time jumps to what happens next, so an answer that never comes costs as much as one that does. The
server's work is a real mongod's.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any

import pytest

from floor.flows import FLOWS, wait
from floor.trials import CANCELS, Tasks, Trials, Way, choice
from floor.wire import VIRTUAL_BREAKS, Wire
from floor.world import BrokenOff, VirtualLoop, VirtualStreamsLoop, World
from mangonel import AsyncMongoClient, MongoClient
from mangonel._core import run_now
from mangonel.server import Server

LOOPS: dict[str, type[VirtualLoop]] = {"asyncio": VirtualLoop, "streams": VirtualStreamsLoop}
FACES = ("greenlets", *LOOPS)
# The client gives up a missing reply after two seconds.
URI = "mongodb://%2Fvirtual.sock/?directConnection=true&socketTimeoutMS=2000"


class VirtualTasks(Tasks):
    """On a `VirtualLoop`."""

    breaks = VIRTUAL_BREAKS

    async def pause(self) -> None:
        await asyncio.sleep(0.1)

    def monotonic(self) -> float:
        return asyncio.get_running_loop().time()

    def hurry(self, client: Any) -> None:
        """Virtual time passes faster than that."""


class Greenlets(Way):
    """In a greenlet of a world, which is interrupted at a wait."""

    kinds = CANCELS
    breaks = VIRTUAL_BREAKS
    exceptions = (BrokenOff,)

    def __init__(self, world: World) -> None:
        super().__init__()
        self.world = world

    async def run(self, steps: Coroutine[Any, Any, Any], kind: str, at: int) -> Any:
        with self.world.break_off(at if kind in CANCELS else 0, kind) as waits:
            try:
                return run_now(steps)
            finally:
                self.count = waits()

    async def pause(self) -> None:
        self.world.sleep(0.1)

    def monotonic(self) -> float:
        return self.world.monotonic()

    def hurry(self, client: Any) -> None:
        """Virtual time passes faster than that."""


def play(
    face: str,
    server: Server,
    seed: int | None,
    program: Callable[[World, Wire, Any, Any], Coroutine[Any, Any, Any]],
) -> Any:
    """Run a program in a world of its own, with the network, a client and an administrator's client."""
    with MongoClient(server.uri) as real, World(seed or 0) as world:
        admin, wire = world.leave_outside(real), Wire(world, server.members[0].port, seed is None)
        world.connect_by(wire.connect)

        async def steps() -> Any:
            kind = AsyncMongoClient if face in LOOPS else MongoClient
            client = world.keep_time(kind(URI, connect=False))
            try:
                return await program(world, wire, client, admin)
            finally:
                await wait(client.close())

        if face in LOOPS:
            with asyncio.Runner(loop_factory=lambda: LOOPS[face](world, wire.connect)) as runner:
                result = runner.run(steps())
        else:
            (result,) = world.run(partial(run_now, steps()))
        while world.in_greenlets():
            world.turn()
            world.advance()
        wire.close()
    return result


@pytest.mark.plays_a_sample
@pytest.mark.timeout(900)
@pytest.mark.parametrize("face", FACES)
@pytest.mark.parametrize("name", FLOWS)
def test_a_flow_that_is_broken_off_at_any_step_tells_the_truth_and_leaves_nothing(
    name: str, face: str, server: Server, database_name: str, request: pytest.FixtureRequest
) -> None:
    is_chosen = choice(f"{name} {face}", request.config.getoption("sample"), 40)

    async def program(world: World, wire: Wire, client: Any, admin: Any) -> list[str]:
        way = VirtualTasks() if face in LOOPS else Greenlets(world)
        return await Trials(FLOWS[name](client, admin, database_name), wire, admin, way).all(is_chosen)

    wrong = play(face, server, None, program)
    assert not wrong, f"{len(wrong)} steps:\n" + "\n".join(wrong)


async def side_by_side(world: World, face: str, *works: Callable[[], Coroutine[Any, Any, Any]]) -> None:
    """Run these flows at once to their ends."""
    if face in LOOPS:
        await asyncio.gather(*(work() for work in works))
        return
    left = len(works)

    def run(work: Callable[[], Coroutine[Any, Any, Any]]) -> None:
        nonlocal left
        try:
            run_now(work())
        finally:
            left -= 1

    for work in works:
        world.spawn(run, work)
    while left:
        world.sleep(0.1)


async def play_pair(face: str, database: str, world: World, wire: Wire, client: Any, admin: Any) -> list[Any]:
    """Run two flows at once; chance chooses the flows, the lost messages, and the step at which each is interrupted."""
    chance = world.chance
    names = chance.sample(sorted(FLOWS), 2)
    pair = []
    for name in names:
        way = VirtualTasks() if face in LOOPS else Greenlets(world)
        pair.append(Trials(FLOWS[name](client, admin, f"{database}_{name}"), wire, admin, way))
        await pair[-1].flow.prepare()
    kind = chance.choice(("", *VIRTUAL_BREAKS))
    wire.break_at(kind, chance.randint(1, 12) if kind else 0)
    cancels = [(chance.choice(("", "", *CANCELS)), chance.randint(1, 25)) for _ in pair]
    await side_by_side(
        world, face, *(partial(trials.run, *cancel) for trials, cancel in zip(pair, cancels, strict=True))
    )
    await pair[0].is_over()
    broken, broken_in = wire.broken, wire.broken_in
    wire.break_at("", 0)
    story = [*names, kind, broken, *cancels, *((trials.is_done, trials.raised) for trials in pair)]
    try:
        for trials in pair:
            await trials.judge(broken if broken_in in ("admin", trials.flow.database.name) else None)
        # The last command of an interrupted flow may have been a find in its session.
        is_cancelled = any(not trials.is_done and not trials.raised for trials in pair)
        may_stay = broken is not None and any(trials.flow.may_leave_cursor(broken, kind) for trials in pair)
        for trials in pair:
            await trials.nothing_is_left(may_stay or (is_cancelled and "sessioncursor" in names))
    except AssertionError as error:
        raise AssertionError(f"{story}: {error}") from None
    return [*story, *wire.history]


# Seeds of each face in the sample; the rest plays the later ones.
SEEDS, REST_SEEDS = 4, 40


@pytest.mark.plays_a_sample
@pytest.mark.timeout(900)
@pytest.mark.parametrize("face", FACES)
def test_two_flows_at_once_tell_the_truth_and_leave_nothing(
    face: str, server: Server, request: pytest.FixtureRequest
) -> None:
    wanted = os.environ.get("MANGONEL_SEED")
    is_sample = request.config.getoption("sample")
    seeds = [int(wanted)] if wanted else range(SEEDS) if is_sample else range(SEEDS, SEEDS + REST_SEEDS)
    wrong = []
    for seed in seeds:
        try:
            play(face, server, seed, partial(play_pair, face, "pairs"))
        except AssertionError as error:
            wrong.append(f"MANGONEL_SEED={seed} {str(error).partition(chr(10))[0]}")
            with MongoClient(server.uri) as admin:
                admin.admin.command({"killAllSessions": []})
    assert not wrong, f"{len(wrong)} seeds:\n" + "\n".join(wrong)


@pytest.mark.parametrize("face", FACES)
def test_a_seed_plays_the_same_again(face: str, server: Server) -> None:
    first, second = (play(face, server, 5, partial(play_pair, face, "again")) for _ in range(2))
    assert first == second
    assert len(first) > 15
