"""Runs blocking code on a collection of the asyncio face: the code in a thread, its operations in the event loop.

The thread reads, parses and writes; the loop sends and receives. Knows no format.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from typing import Any, TypeVar

from mangonel import _core
from mangonel._arguments import expect

__all__ = ["check_face", "run_in_thread"]

T = TypeVar("T")


async def run_in_thread(function: Callable[..., T], collection: Any, *arguments: Any, **options: Any) -> T:
    """Run a function of the blocking face on a collection of the asyncio face; return its result.

    When cancelled, it returns after the function has ended: the function's next operation raises CancelledError.

    Args:
        function: takes a collection of the blocking face, then `arguments` and `options`. An option `progress` that is
            a function is called in the loop.
        collection: a collection of the asyncio face.

    Raises:
        TypeError: a collection of the blocking face, or no collection.
    """
    check_face(collection, is_async=True, twin=function.__name__)
    port = _LoopPort(collection._port)
    if options.get("progress") is not None:
        options["progress"] = port.in_loop(options["progress"])
    work = asyncio.ensure_future(
        asyncio.to_thread(function, _blocking(collection, port), *arguments, **options)
    )
    try:
        return await asyncio.shield(work)
    except asyncio.CancelledError:
        port.is_over = True
        # Wait, so that no file is left in use.
        await asyncio.wait([work])
        if not work.cancelled():
            work.exception()
        raise


def check_face(collection: Any, *, is_async: bool, twin: str) -> None:
    """Raise unless `collection` is a collection of the expected face.

    Args:
        collection: the caller's argument.
        is_async: whether it must be of the asyncio face.
        twin: the function for collections of the other face.

    Raises:
        TypeError: it is another object, or a collection of the other face.
    """
    from mangonel.api import AsyncCollection, Collection

    expect("collection", collection, (Collection, AsyncCollection), "a collection")
    port: Any = collection._port
    if port.is_async is not is_async:
        wanted, got = ("asyncio", "blocking") if is_async else ("blocking", "asyncio")
        raise TypeError(f"expected a collection of the {wanted} face, got one of the {got} face; use {twin}")


class _LoopPort:
    """A port for threads: flows run in the thread, each operation on another port in the loop."""

    is_async = False
    # Each operation has the limit of the port in the loop.
    timeout = limit = preparation = None

    def __init__(self, port: Any) -> None:
        self._port = port
        self._loop = asyncio.get_running_loop()
        self.is_over = False

    def __getattr__(self, name: str) -> Any:
        return getattr(self._port, name)

    def _send(self, call: Callable[[], Coroutine[Any, Any, Any]], *, is_closing: bool = False) -> Future[Any]:
        """Run a coroutine in the loop; return a future for the thread."""

        async def called() -> Any:
            if self.is_over and not is_closing:
                raise asyncio.CancelledError
            return await call()

        return asyncio.run_coroutine_threadsafe(called(), self._loop)

    def in_loop(self, function: Callable[..., None]) -> Callable[..., None]:
        """Return a function that calls `function` in the loop; an exception in it reaches the thread."""

        async def call(*arguments: Any) -> None:
            function(*arguments)

        return lambda *arguments: self._send(lambda: call(*arguments)).result()

    def start(self, operation: _core.Operation, connects: bool = False) -> Future[Any]:
        # A cursor that ends early is closed on the server too.
        port, is_closing = self._port, operation.name == "killCursors"
        return self._send(lambda: port.flow(port.arun(operation)), is_closing=is_closing)

    def run(self, operation: _core.Operation) -> Any:
        return self.start(operation).result()

    async def arun(self, operation: _core.Operation) -> Any:
        return self.run(operation)

    def flow(self, steps: Coroutine[Any, Any, T]) -> T:
        return _core.run_now(steps)

    async def call(self, callback: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
        return callback(*arguments, **options)

    async def pause(self, seconds: float) -> None:
        time.sleep(seconds)

    async def finish(self, started: Future[Any]) -> Any:
        return started.result()

    outlast = finish

    def may_wait(self, started: Future[Any]) -> bool:
        return not started.done()

    def give_up(self, started: Future[Any]) -> None:
        started.cancel()


def _blocking(collection: Any, port: _LoopPort) -> Any:
    """Return a collection of the blocking face that runs its operations on a port."""
    from mangonel.api import Collection, Database, MongoClient

    def over(owner: Any, kind: type[Any], **own: Any) -> Any:
        made = object.__new__(kind)
        vars(made).update(vars(owner), _port=port, **own)
        return made

    database = collection._database
    client = over(database._client, MongoClient)
    made = over(collection, Collection)
    made._belong_to(
        over(database, Database, _client=client), port, client, database._database_name, collection._name
    )
    return made
