"""Each flow on each face, interrupted at each of its steps: cancelled at every await, every command and reply lost.
flow

A flow runs once to count its awaits and its commands. Then it runs again for each of them, and breaks off there. A real
mongod stands behind a proxy that knows commands, so a step is the same one in each run; the clock is the machine's.
`test_virtual_time.py` does the same in a world whose time does not pass by itself, and `test_gevent_faces.py` runs this
file in a process that gevent has patched: there each switch of the flow's greenlet is a step, at which it is killed.
"""

from __future__ import annotations

import asyncio

import pytest

from floor.flows import FLOWS, wait
from floor.trials import Kills, Tasks, Trials, Way, choice
from mangonel import AsyncMongoClient, MongoClient
from mangonel._core import run_now
from mangonel._faces.sockets import is_patched_by_gevent
from mangonel.server import Server
from tools.faces import LOOPS, new_loop
from tools.message_proxy import MessageProxy

# Under gevent there is only one way to run a flow.
FACES = ("reference",) if is_patched_by_gevent() else ("fused", "reference", *LOOPS)


def way_of(face: str) -> Way:
    if face in LOOPS:
        return Tasks()
    return Kills() if is_patched_by_gevent() else Way()


@pytest.mark.plays_a_sample
@pytest.mark.timeout(900)
@pytest.mark.parametrize("face", FACES)
@pytest.mark.parametrize("name", FLOWS)
def test_a_flow_that_is_broken_off_at_any_step_tells_the_truth_and_leaves_nothing(
    name: str,
    face: str,
    server: Server,
    database_name: str,
    haste: None,
    request: pytest.FixtureRequest,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    if face == "reference":
        monkeypatch.setenv("MANGONEL_IMPL", "reference")
    is_chosen = choice(f"{name} {face}", request.config.getoption("sample"))
    with MongoClient(server.uri) as admin, MessageProxy(server.members[0].port) as proxy:
        uri = f"mongodb://127.0.0.1:{proxy.port}/?directConnection=true"

        async def steps() -> list[str]:
            client = AsyncMongoClient(uri) if face in LOOPS else MongoClient(uri)
            try:
                flow = FLOWS[name](client, admin, database_name)
                return await Trials(flow, proxy, admin, way_of(face)).all(is_chosen)
            finally:
                await wait(client.close())

        if face in LOOPS:
            with asyncio.Runner(loop_factory=lambda: new_loop(face)) as runner:
                wrong = runner.run(steps())
        else:
            wrong = run_now(steps())
        admin.drop_database(database_name)
    assert not wrong, f"{len(wrong)} steps:\n" + "\n".join(wrong)
