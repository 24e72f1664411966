"""The driver under test and its two faces, each able to run the one runner that is written as coroutines.

Knows no test format.
"""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import inspect
import os
import queue
import threading
import time
from collections.abc import Coroutine, Iterator
from dataclasses import dataclass
from types import ModuleType
from typing import Any

__all__ = ["FACES", "Driver", "Face", "Worker", "load_driver"]

FACES = ("blocking", "asyncio")
HEARTBEAT_MS = 50
SELECTION_MS = 20_000  # longer than an election takes, and than a virtual machine was seen to pause (12 s)
WORKER_TIMEOUT = 60.0  # seconds; the format says 10 of waitForThread, which a busy machine may need


@dataclass(frozen=True)
class Driver:
    """The modules of a driver with PyMongo's names."""

    name: str
    # What `bson` and `gridfs` are called there.
    bson_name: str
    gridfs_name: str

    def module(self, name: str) -> ModuleType:
        """Return a module below the package, such as "errors"; "" is the package."""
        return importlib.import_module(f"{self.name}.{name}" if name else self.name)

    def bson(self, name: str) -> ModuleType:
        """Return a module of the BSON package, such as "json_util"; "" is the package."""
        return importlib.import_module(f"{self.bson_name}.{name}" if name else self.bson_name)

    @contextlib.contextmanager
    def hurried(self) -> Iterator[dict[str, Any]]:
        """Let monitors look again sooner than users may ask for; yield the client options that make them do so.

        What ends a server's reign in these cases is over at once, and its next look would come in ten seconds.
        """
        owner = self.module("common" if self.name == "pymongo" else "client_options")
        usual = owner.MIN_HEARTBEAT_INTERVAL
        owner.MIN_HEARTBEAT_INTERVAL = HEARTBEAT_MS / 1000
        try:
            yield {"heartbeatFrequencyMS": HEARTBEAT_MS, "serverSelectionTimeoutMS": SELECTION_MS}
        finally:
            owner.MIN_HEARTBEAT_INTERVAL = usual

    @property
    def gridfs(self) -> ModuleType:
        """The module of GridFSBucket."""
        return importlib.import_module(self.gridfs_name)

    @property
    def errors(self) -> Any:
        """The exceptions."""
        return self.module("errors")


def load_driver() -> Driver:
    """Return the driver that MANGONEL_SPEC_DRIVER names; this project's own without it."""
    if os.environ.get("MANGONEL_SPEC_DRIVER", "mangonel") == "pymongo":
        return Driver("pymongo", "bson", "gridfs")
    return Driver("mangonel", "mangonel.bson", "mangonel.gridfs")


class Face:
    """One face of the driver, and how to wait on it."""

    def __init__(self, driver: Driver, name: str) -> None:
        self.driver = driver
        self.name = name
        self.is_async = name == "asyncio"

    def public(self, module: ModuleType, name: str) -> Any:
        """Return the class of that name as this face calls it: `AsyncX` for `X`."""
        return getattr(module, f"Async{name}" if self.is_async else name)

    def run(self, flow: Coroutine[Any, Any, Any]) -> Any:
        """Run the flow of a case from the outside."""
        return asyncio.run(flow) if self.is_async else _run_blocking(flow)

    def callback(self, flow_function: Any) -> Any:
        """Return a callable for the driver that runs the flow: a coroutine function where the face has such."""
        if self.is_async:
            return flow_function
        return lambda *arguments: _run_blocking(flow_function(*arguments))

    async def wait(self, value: Any) -> Any:
        """Return the result of a driver's method, awaited if necessary."""
        return await value if inspect.isawaitable(value) else value

    async def sleep(self, seconds: float) -> None:
        """Let time pass, for the other tasks too."""
        if self.is_async:
            await asyncio.sleep(seconds)
        else:
            time.sleep(seconds)

    def start_worker(self) -> Worker:
        """Return a thread, or a task in its place."""
        return _TaskWorker() if self.is_async else _ThreadWorker()


class Worker:
    """Runs flows one after the other beside the case; keeps the first error."""

    def submit(self, flow: Coroutine[Any, Any, Any]) -> None:
        """Run it after those that were submitted before."""
        raise NotImplementedError

    async def finish(self) -> None:
        """Wait until all are done; raise the error of the first that failed."""
        raise NotImplementedError


class _ThreadWorker(Worker):
    def __init__(self) -> None:
        self._flows: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._work, daemon=True)
        self._thread.start()

    def submit(self, flow: Coroutine[Any, Any, Any]) -> None:
        self._flows.put(flow)

    def _work(self) -> None:
        while (flow := self._flows.get()) is not None:
            try:
                _run_blocking(flow)
            except BaseException as error:
                self._error = self._error or error

    async def finish(self) -> None:
        self._flows.put(None)
        self._thread.join(WORKER_TIMEOUT)
        assert not self._thread.is_alive(), f"the thread did not end within {WORKER_TIMEOUT} s"
        if self._error is not None:
            raise self._error


class _TaskWorker(Worker):
    def __init__(self) -> None:
        self._task: asyncio.Task[None] | None = None

    def submit(self, flow: Coroutine[Any, Any, Any]) -> None:
        before = self._task

        async def work() -> None:
            if before is not None:
                await before
            await flow

        self._task = asyncio.create_task(work())

    async def finish(self) -> None:
        if self._task is not None:
            async with asyncio.timeout(WORKER_TIMEOUT):
                await self._task


def _run_blocking(flow: Coroutine[Any, Any, Any]) -> Any:
    # Nothing suspends on the blocking face, so the first step is the last.
    try:
        flow.send(None)
    except StopIteration as done:
        return done.value
    flow.close()
    raise AssertionError("a flow of the blocking face waited for an event loop")
