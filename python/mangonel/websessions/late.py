"""A websession whose answer is leaving or has left: uses that can no longer take effect raise an error.

Handlers keep the object, so its class changes. Waits only in the task that ends a websession late.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from types import MethodType
from typing import Any, NoReturn

from mangonel.websessions.errors import UsageError, WebSessionError
from mangonel.websessions.machine import discard
from mangonel.websessions.session import WebSession

__all__ = ["Left", "Unkept", "Unread", "end_late", "leave", "let_go", "let_read"]

log = logging.getLogger("mangonel.websessions")


class Unread(WebSession[Any]):
    """A websession that raises when read: a body is being sent that caches may give to every visitor."""

    __slots__ = ()

    @property
    def accessed(self) -> bool:
        """Whether the websession was read: always False here."""
        return False

    @accessed.setter
    def accessed(self, value: bool) -> None:
        raise UsageError(
            "expected the websession to be read before the headers leave, got a read after them: they let caches give "
            "this answer to every visitor; read it before, or answer with Cache-Control: private"
        )


class Unkept(WebSession[Any]):
    """A websession that raises when changed: a body is being sent without a cookie, so a change could not be stored."""

    __slots__ = ()


class UnreadUnkept(Unread, Unkept):
    """A websession that raises when read or changed."""

    __slots__ = ()


class Left(WebSession[Any]):
    """The state after the answer: a change raises until `reload()` or `lock()` makes the websession usable again.

    It can be read, but lists and dicts in it cannot be changed either.
    """

    __slots__ = ()

    def __getitem__(self, key: str) -> Any:
        return fixed(super().__getitem__(key))

    def get(self, key: str, default: Any = None) -> Any:
        """As before the answer."""
        return fixed(super().get(key, default))

    def items(self) -> Any:
        """As before the answer."""
        return {key: self[key] for key in self}.items()

    def values(self) -> Any:
        """As before the answer."""
        return {key: self[key] for key in self}.values()

    def copy(self) -> dict[str, Any]:
        """As before the answer."""
        return {key: self[key] for key in self}

    @property
    def data(self) -> Any:
        """As before the answer."""
        found = super().data
        return found if found is self else FixedModel(found)

    @data.setter
    def data(self, value: Any) -> None:
        _refuse(self, value)

    def reload(self) -> Any:
        """Read it again; from now on it may be changed, and `save()` stores the changes."""
        self.__class__ = WebSession  # type: ignore[assignment]
        return self.reload()


def _refuse(self: Any, *arguments: Any, **keywords: Any) -> NoReturn:
    raise UsageError(
        "expected no change of the websession after the answer and its background tasks, got one, which nothing would "
        "store; begin with lock(), or with reload() and end with save()"
    )


def _refuse_new(self: Any, *arguments: Any, **keywords: Any) -> NoReturn:
    raise UsageError(
        "a new websession needs a cookie, and the headers of this answer have left without one: nothing of this change "
        "would be stored; change it before the headers leave"
    )


def _refusing(name: str, refuse: Callable[..., NoReturn]) -> property:
    """Return a property of a websession that can be read but no longer set."""
    known: property = WebSession.__dict__[name]
    return property(known.fget, refuse, doc=known.__doc__)


for _class, _answer in ((Left, _refuse), (Unkept, _refuse_new)):
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
        setattr(_class, _name, _answer)
    for _name in ("label", "permanent"):
        setattr(_class, _name, _refusing(_name, _answer))
Unkept.data = _refusing("data", _refuse_new)  # type: ignore[method-assign, assignment]


class FixedList(list[Any]):
    """A list of a websession whose answer has left."""

    __slots__ = ()


class FixedDict(dict[Any, Any]):
    """A dict of a websession whose answer has left."""

    __slots__ = ()


class FixedModel:
    """An instance of a model, or one inside it, of a websession whose answer has left."""

    __slots__ = ("_model",)

    def __init__(self, model: Any) -> None:
        object.__setattr__(self, "_model", model)

    @property  # type: ignore[misc]  # so that isinstance() tells as before
    def __class__(self) -> Any:
        return type(self._model)

    def __getattr__(self, name: str) -> Any:
        value = getattr(self._model, name)
        if isinstance(value, MethodType) and value.__self__ is self._model:
            # So that changes by the method raise.
            return MethodType(value.__func__, self)
        return fixed(value)

    def __eq__(self, other: object) -> bool:
        return bool(self._model == other)

    def __hash__(self) -> int:
        return hash(self._model)

    def __repr__(self) -> str:
        return repr(self._model)


FixedModel.__setattr__ = FixedModel.__delattr__ = _refuse  # type: ignore[method-assign]

for _name in (
    *("__delitem__", "__iadd__", "__imul__", "__setitem__", "append", "clear", "extend", "insert"),
    *("pop", "remove", "reverse", "sort"),
):
    setattr(FixedList, _name, _refuse)
for _name in (*("__delitem__", "__ior__", "__setitem__", "clear", "pop", "popitem", "setdefault", "update"),):
    setattr(FixedDict, _name, _refuse)


def fixed(value: Any) -> Any:
    """Return a value in which a change of a list, dict, set or model raises, at any depth."""
    kind = type(value)
    if kind in FLAT:
        return value
    if kind is list:
        return FixedList([fixed(each) for each in value])
    if kind is dict:
        return FixedDict({key: fixed(each) for key, each in value.items()})
    if kind is set:
        return frozenset(value)
    if kind is tuple:
        return tuple(fixed(each) for each in value)
    return (
        FixedModel(value) if hasattr(kind, "__struct_fields__") or hasattr(kind, "__annotations__") else value
    )


# Types whose values are immutable.
FLAT = frozenset((str, int, float, bytes, bool, type(None)))


def let_read(session: WebSession[Any]) -> None:
    """Allow reading again once the whole body has left: caches cannot get any of it now."""
    if isinstance(session, Unread):
        session.__class__ = Unkept if isinstance(session, Unkept) else WebSession  # type: ignore[assignment]


def leave(session: WebSession[Any], commit: asyncio.Future[None] | None = None) -> None:
    """Refuse later changes, except an end.

    Args:
        session: the request's.
        commit: the task that stores the changes so far and then answers; an end waits for it. None: it has finished.
    """
    if commit is None:
        session.state.headers_left = True
        session.state.late_end = end_late
    else:
        session.state.late_end = lambda session: _go_on(_end_after(session, commit))
    session.__class__ = Left


def let_go(session: WebSession[Any], *, is_read: bool) -> None:
    """Refuse the uses of a websession that the sent headers rule out, while the body is being sent.

    Args:
        session: the request's.
        is_read: whether it may still be read.
    """
    state = session.state
    is_kept = not state.sessions.is_stateless and (state.record is not None or state.promised is not None)
    if is_read:
        if not is_kept:
            session.__class__ = Unkept
    else:
        session.__class__ = Unread if is_kept else UnreadUnkept


def end_late(session: WebSession[Any]) -> None:
    """Commit an end that was called after the response had left, or without a response."""
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
    # A commit clears the end that it has stored, so the end is set again.
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
