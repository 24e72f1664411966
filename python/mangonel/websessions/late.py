"""A websession whose answer is leaving or has left: what can no longer be honoured raises, and is never dropped.

The object stays the same, since handlers have it in their hands: its class changes. Waits for nothing but in the task
that ends a websession late.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine
from typing import Any, NoReturn

from mangonel.websessions.errors import UsageError, WebSessionError
from mangonel.websessions.machine import discard
from mangonel.websessions.session import WebSession

__all__ = ["Left", "Unread", "end_late", "leave", "let_read"]

log = logging.getLogger("mangonel.websessions")


class Unread(WebSession[Any]):
    """While a body leaves whose headers let caches give it to every visitor: to look into the websession raises."""

    __slots__ = ()

    @property
    def accessed(self) -> bool:
        """Whether the websession was looked at: not so far."""
        return False

    @accessed.setter
    def accessed(self, value: bool) -> None:
        raise UsageError(
            "expected the websession to be read before the headers leave, got a read after them: they let caches give "
            "this answer to every visitor; read it before, or answer with Cache-Control: private"
        )


class Left(WebSession[Any]):
    """After the answer: to read is fine; a change raises until `reload()` or `lock()` takes the websession up again."""

    __slots__ = ()

    def reload(self) -> Any:
        """Read it again; from now on it may be changed, and `save()` stores that."""
        self.__class__ = WebSession  # type: ignore[assignment]
        return self.reload()


def _refuse(self: WebSession[Any], *arguments: Any, **keywords: Any) -> NoReturn:
    raise UsageError(
        "expected no change of the websession after the answer and its background tasks, got one, which nothing would "
        "store; begin with lock(), or with reload() and end with save()"
    )


def _refusing(name: str) -> property:
    """Return a property of a websession that can be read and no longer set."""
    known: property = WebSession.__dict__[name]
    return property(known.fget, _refuse, doc=known.__doc__)


for _name in (
    "__delitem__",
    "__ior__",
    "__setitem__",
    "clear",
    "flash",
    "flashes",
    "increment",
    "pop",
    "popitem",
    "refresh",
    "setdefault",
    "update",
):
    setattr(Left, _name, _refuse)
for _name in ("data", "label", "permanent"):
    setattr(Left, _name, _refusing(_name))


def let_read(session: WebSession[Any]) -> None:
    """The whole body has left: to read the websession tells caches nothing any more."""
    if type(session) is Unread:
        session.__class__ = WebSession  # type: ignore[assignment]


def leave(session: WebSession[Any], commit: asyncio.Future[None] | None = None) -> None:
    """Refuse what comes after the answer, but for an end.

    Args:
        session: the request's.
        commit: what stores the changes so far and answers then; an end waits for it. None: that is done.
    """
    if commit is None:
        session.state.headers_left = True
        session.state.late_end = end_late
    else:
        session.state.late_end = lambda session: _go_on(_end_after(session, commit))
    session.__class__ = Left


def end_late(session: WebSession[Any]) -> None:
    """Commit an end that was requested after the response had left, or without a response."""
    if session.state.face is not None and not session.state.face.waits:
        if _is_to_end(session):
            session.state.face.commit(session)
        return
    _go_on(_commit_end(session))


def _go_on(ending: Coroutine[Any, Any, None]) -> None:
    task = asyncio.ensure_future(ending)
    _commits.add(task)
    task.add_done_callback(_commits.discard)


async def _end_after(session: WebSession[Any], commit: asyncio.Future[None]) -> None:
    await asyncio.wait([commit])
    # The commit took its own end, if it had one, for done.
    session.state.had_end = session.state.is_ended = True
    await _commit_end(session)


async def _commit_end(session: WebSession[Any]) -> None:
    try:
        if _is_to_end(session):
            await session.state.sessions.asynchronous.commit(session)
    except WebSessionError as error:
        log.error("cannot end the websession: %s", error)


def _is_to_end(session: WebSession[Any]) -> bool:
    state = session.state
    if not state.had_end or state.record is None:
        return False
    state.headers_left, state.late_end = True, None
    discard(session)
    return True


# Commits that no response waits for, until they are done.
_commits: set[asyncio.Future[None]] = set()
