"""Shared by several frameworks: paths without websessions, commits that outlast a request, watches.

Imports no framework.
"""

from __future__ import annotations

import asyncio
import functools
import inspect
import logging
import time
from collections.abc import AsyncIterable, AsyncIterator, Callable, Coroutine, Iterable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar

from mangonel.websessions.answer import last_plan, late_plan
from mangonel.websessions.errors import StoreError, UsageError, WebSessionError
from mangonel.websessions.late import leave, let_read
from mangonel.websessions.machine import NOTHING
from mangonel.websessions.settings import Cookie, seconds

if TYPE_CHECKING:
    from mangonel.websessions.manager import WebSessions
    from mangonel.websessions.session import WebSession

log = logging.getLogger("mangonel.websessions")

# Statuses of responses without a body, for which nothing is generated after the headers.
BODILESS = (204, 304)

# From the private range of WebSocket close codes; it resembles the status 401.
ENDED_CODE = 4401
ENDED = "the websession has ended"


View = TypeVar("View", bound=Callable[..., Any])


class Paths:
    """Paths without websessions; a path that ends in "/" includes everything below it.

    Args:
        given: the paths.
        name: the name of the argument or setting, for errors.

    Raises:
        UsageError: a text in place of a list: each of its letters would be a path, and "/" includes all. Or a path does
            not begin with "/".
    """

    def __init__(self, given: Iterable[str], name: str = "exclude") -> None:
        if isinstance(given, str):
            raise UsageError(f"expected {name} as a list of paths, got {given!r}; write [{given!r}]")
        given = tuple(given)
        for path in given:
            if not isinstance(path, str) or not path.startswith("/"):
                raise UsageError(f'expected {name} as paths that begin with "/", got {path!r}')
        self._exact = frozenset(path for path in given if not path.endswith("/"))
        self._below = tuple(path for path in given if path.endswith("/"))

    def __contains__(self, path: str) -> bool:
        return path in self._exact or (bool(self._below) and path.startswith(self._below))

    def hold(self, path: str, prefix: str) -> bool:
        """Return whether a path is one of these, as a whole or below the prefix of its application.

        Servers disagree: uvicorn's `--root-path` is a part of each path, FastAPI's `root_path` is not.
        """
        prefix = prefix.rstrip("/")
        return path in self or (
            bool(prefix) and path.startswith(f"{prefix}/") and path[len(prefix) :] in self
        )


def last_of(header: str) -> str:
    """Return the last value of a header that proxies append to: the one of our own proxy."""
    return header.rpartition(",")[2].strip()


def visitor_in(forwarded_for: str) -> str:
    """Return the visitor's address as our own proxy gives it, without the port that some proxies add."""
    address = last_of(forwarded_for)
    if address.startswith("["):
        return address[1:].partition("]")[0]
    return address.partition(":")[0] if address.count(":") == 1 else address


def is_event_stream(content_type: str) -> bool:
    """Return whether a response with this content type goes on for as long as its visitor listens."""
    return content_type.partition(";")[0].strip().lower() == "text/event-stream"


async def commit(session: WebSession[Any], status: int) -> None:
    """Store the changes of a request whose response has this status, on the event loop."""
    plan = last_plan(session, status)
    if plan != NOTHING:
        await session.state.sessions.asynchronous.commit(session, plan)


async def outlast(coroutine: Coroutine[Any, Any, None]) -> None:
    """Wait for a commit, which continues if the request is cancelled."""
    task = asyncio.ensure_future(coroutine)
    _commits.add(task)
    task.add_done_callback(_commits.discard)
    await asyncio.shield(task)


_commits: set[asyncio.Future[None]] = set()


async def commit_failure(session: WebSession[Any]) -> None:
    """Commit the parts that hold even if the application failed."""
    try:
        await outlast(commit(session, 500))
    except WebSessionError as failure:
        log.error("cannot store the websession: %s", failure)


def store_late(session: WebSession[Any], status: int) -> None:
    """Store, in a thread, changes that a stream or a closing function made after the headers had left.

    Raises:
        WebSessionError: it cannot be stored. The server logs it.
    """
    let_read(session)
    try:
        plan = late_plan(session, status)
        if plan != NOTHING:
            session.state.sessions.blocking.commit(session, plan)
    finally:
        leave(session)


def store_at_close(session: WebSession[Any], response: Any) -> None:
    """Store changes that a body or a closing function makes after the headers have left; servers close a response last.

    Args:
        session: the request's.
        response: Flask's or Django's.
    """
    close, status = response.close, response.status_code

    def close_and_store() -> None:
        # The two refer to each other, so every response would be left to the garbage collector.
        vars(response).pop("close", None)
        try:
            close()
        finally:
            store_late(session, status)

    response.close = close_and_store


def noting(session: WebSession[Any], parts: Iterable[Any]) -> Iterator[Any]:
    """Yield the parts of a body. If making one fails, commit the parts of the websession that hold even then."""
    try:
        # Not `yield from`, which would close the parts, as the response does.
        for part in parts:  # noqa: UP028
            yield part
    except Exception:
        try:
            store_late(session, 500)
        except WebSessionError as failure:
            log.error("cannot store the websession: %s", failure)
        raise


async def anoting(session: WebSession[Any], parts: AsyncIterable[Any]) -> AsyncIterator[Any]:
    """As `noting`, on an event loop; Django does not close a response whose body failed there."""
    try:
        async for part in parts:
            yield part
    except BaseException as error:
        # If the client has left, Django cancels this and closes the response, which stores values.
        if isinstance(error, Exception) or session.state.had_end:
            await commit_failure(session)
        raise


async def watch(session: WebSession[Any], every: float, end: Callable[[], Any]) -> None:
    """Check the store every `every` seconds; once the websession has ended, call `end` and await its result.

    Args:
        session: the websession of an open WebSocket or event stream.
        every: seconds between two checks.
        end: closes the connection.
    """
    while True:
        await asyncio.sleep(every)
        try:
            if not await session.state.sessions.asynchronous.is_alive(session):
                await end()
                return
        except StoreError:
            continue  # reported as an event; the next check may succeed


async def until_ended(
    session: WebSession[Any], every: float, parts: AsyncIterable[Any]
) -> AsyncIterator[Any]:
    """Yield the parts of an event stream until its websession has ended, which interrupts a wait for a part.

    Args:
        session: the stream's websession.
        every: seconds between two checks of the store.
        parts: the stream. All of it runs in the task that iterates over this.
    """
    task = asyncio.current_task()
    assert task is not None
    has_ended = is_waiting = False

    async def end() -> None:
        nonlocal has_ended
        has_ended = True
        if is_waiting:
            task.cancel()

    watching = asyncio.ensure_future(watch(session, every, end))
    iterator = aiter(parts)
    try:
        while not has_ended:
            is_waiting = True
            try:
                part = await anext(iterator)
            except StopAsyncIteration:
                return
            except asyncio.CancelledError:
                if not has_ended or task.uncancel() > 0:
                    raise
                return
            finally:
                is_waiting = False
            yield part
    finally:
        watching.cancel()


class Looks:
    """Checks the store while a thread makes an event stream: before a part, but at most every `every` seconds.

    A thread that waits for its next event cannot be interrupted, so a stream that is silent ends at that event.

    Args:
        session: the stream's websession.
        every: seconds between two checks.
    """

    def __init__(self, session: WebSession[Any], every: float) -> None:
        self._session = session
        self._every = every
        self._last = time.monotonic()

    def goes_on(self, _part: object = None) -> bool:
        """Return whether the stream may continue: False once its websession has ended."""
        now = time.monotonic()
        if now - self._last < self._every:
            return True
        self._last = now
        try:
            return self._session.state.sessions.blocking.is_alive(self._session)
        except StoreError:
            return True  # reported as an event; the next check may succeed


def requiring_fresh(session_of: Callable[..., Any], within: Any) -> Callable[[View], View]:
    """Return a decorator for a framework's views: they run only if the user has proved their identity within a time.

    Args:
        session_of: returns the websession, called with the view's arguments.
        within: the longest time since the proof.

    Raises:
        UsageError: `within` is no duration. The decorated view raises `NotFresh`.
    """
    limit = seconds(within, "within")

    def decorate(view: View) -> View:
        found: Any
        if inspect.iscoroutinefunction(view):

            @functools.wraps(view)
            async def found(*arguments: Any, **keywords: Any) -> Any:
                session_of(*arguments).check_fresh(limit)
                return await view(*arguments, **keywords)

        else:

            @functools.wraps(view)
            def found(*arguments: Any, **keywords: Any) -> Any:
                session_of(*arguments).check_fresh(limit)
                return view(*arguments, **keywords)

        return found

    return decorate


def honour_cookie(
    sessions: WebSessions[Any],
    read: Callable[[str, Any], Any],
    options: Iterable[tuple[str, str, Any]],
    where: str,
) -> None:
    """Apply a framework's own settings of the session cookie.

    Args:
        sessions: the websessions for its requests.
        read: returns a setting by its name, or the default.
        options: for each setting its name, the field of `Cookie`, and the framework's default.
        where: where the settings are, for the message.

    Raises:
        UsageError: the two contradict each other.
    """
    mine, default = sessions.cookie_settings, Cookie()
    said: dict[str, Any] = {}
    for option, field, silent in options:
        value = read(option, silent)
        if value == silent:
            continue
        own = getattr(mine, field)
        if own not in (getattr(default, field), value):
            raise UsageError(
                f"{option} is {value!r} in {where}, and {field}={own!r} of the websessions; give both the same"
            )
        said[field] = value
    if any(getattr(mine, field) != value for field, value in said.items()):
        sessions.use_cookie(replace(mine, **said))
