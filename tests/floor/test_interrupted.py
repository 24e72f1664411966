"""Ctrl-C in each flow of the blocking face, at each place where a signal handler may run.

The places are those of the driver's Python code and of the packages above it. There are thousands, so the rest plays
one in so many, and the sample still fewer; `MANGONEL_STEPS=all` plays all of them.
"""

from __future__ import annotations

import os
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

import pytest

import mangonel
from floor.flows import FLOWS
from floor.trials import Trials, Way, choice
from mangonel import MongoClient
from mangonel._core import run_now
from mangonel.server import Server
from tools.interrupts import interrupt, places
from tools.message_proxy import MessageProxy

FOLDERS = (str(Path(mangonel.__file__).parent),)
REST, SAMPLE = 16, 200


class CtrlC(Way):
    """In this thread, interrupted at one of the places."""

    kinds = ("ctrl-c",)
    breaks = ()
    exceptions = (KeyboardInterrupt,)

    async def run(self, steps: Coroutine[Any, Any, Any], kind: str, at: int) -> Any:
        told: list[Any] = []

        def act() -> None:
            told.append(run_now(steps))

        if kind:
            if interrupt(act, at, FOLDERS):
                raise KeyboardInterrupt
        elif not self.count:
            self.count = places(act, FOLDERS)
        else:
            act()
        return told[0]


@pytest.mark.plays_a_sample
@pytest.mark.timeout(3600)
# pytest would report the warning, with the flow that was interrupted before its first step, and keep its cursor alive.
@pytest.mark.filterwarnings("ignore:coroutine .* was never awaited:RuntimeWarning")
@pytest.mark.parametrize("name", FLOWS)
def test_a_flow_that_is_interrupted_anywhere_tells_the_truth_and_leaves_nothing(
    name: str,
    server: Server,
    database_name: str,
    haste: None,
    request: pytest.FixtureRequest,
) -> None:
    number = 1 if os.environ.get("MANGONEL_STEPS") == "all" else REST
    is_chosen = choice(f"{name} ctrl-c", True, SAMPLE if request.config.getoption("sample") else number)
    with MongoClient(server.uri) as admin, MessageProxy(server.members[0].port) as proxy:
        client = MongoClient(f"mongodb://127.0.0.1:{proxy.port}/?directConnection=true")
        with client:
            wrong = run_now(
                Trials(FLOWS[name](client, admin, database_name), proxy, admin, CtrlC()).all(is_chosen)
            )
        admin.drop_database(database_name)
    assert not wrong, f"{len(wrong)} steps:\n" + "\n".join(wrong)
