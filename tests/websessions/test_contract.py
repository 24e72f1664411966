"""Every store keeps the contract, on both of its sides, against real servers."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from mangonel.server import Server
from mangonel.websessions.stores.urls import open_store
from mangonel.websessions.testing import CONTRACT


@pytest.fixture(params=["memory", "mongodb"])
def url(request: pytest.FixtureRequest) -> str:
    if request.param == "mongodb":
        server: Server = request.getfixturevalue("server")
        name: str = request.getfixturevalue("database_name")
        return server.uri.replace("/?", f"/{name}?")
    return f"memory:{request.node.name}"


def applicable(store: Any) -> list[Any]:
    return [check for capability, check in CONTRACT if not capability or hasattr(store, capability)]


def test_the_asynchronous_side(url: str) -> None:
    async def check() -> int:
        store = open_store(url)
        if hasattr(store, "setup"):
            await store.setup()
        checks = applicable(store)
        for each in checks:
            await each(store)
        await store.aclose()
        return len(checks)

    assert asyncio.run(check()) >= 12
