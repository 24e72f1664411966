"""The checker of flows finds code that would run on one face only."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

TOOLS = Path(__file__).resolve().parents[2] / "tools"


@pytest.fixture(scope="module")
def flows() -> ModuleType:
    spec = importlib.util.spec_from_file_location("flows", TOOLS / "flows.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


ALLOWED = [
    "async def copy_flow(self): return await self._port.arun(operation)",
    "async def copy_flow(port): return await port.call(callback, 1)",
    "async def copy_flow(self): await self._read_flow()",
    "async def copy_flow(self): await read_flow(self._port)",
    "def copy(self): return self._port.flow(self._copy_flow())",
    "def copy(self): return self._database._port.flow(copy_flow(self))",
]

REFUSED = {
    "async def copy(self): pass": "expected the name of a flow",
    "def copy_flow(self): pass": "expected copy_flow to be async",
    "async def copy_flow(self): await asyncio.sleep(1)": "got await asyncio.sleep(1)",
    "async def copy_flow(self): await self.find_one()": "got await self.find_one()",
    "async def copy_flow(self, pending): await pending": "got await pending",
    "async def copy_flow(self): await self._port.run(operation)": "got await self._port.run(operation)",
    "async def copy_flow(self):\n    async for x in self: pass": "async for",
    "async def copy_flow(self):\n    async with self: pass": "async for or async with",
    "async def copy_flow(self): return [x async for x in self]": "async comprehension",
    "async def copy_flow(self): self._read_flow()": "expected self._read_flow to be awaited",
    "def copy(self): return self._copy_flow()": "expected self._copy_flow to be awaited",
    "def copy(self): return self._port.run(self._copy_flow())": "expected self._copy_flow to be awaited",
}


@pytest.mark.parametrize("source", ALLOWED)
def test_flow_may_await_ports_and_flows(flows: ModuleType, source: str) -> None:
    assert flows.check(source, "x.py") == []


@pytest.mark.parametrize(("source", "message"), REFUSED.items())
def test_flow_that_waits_elsewhere_is_found(flows: ModuleType, source: str, message: str) -> None:
    found = flows.check(source, "x.py")

    assert len(found) == 1
    assert message in found[0]
