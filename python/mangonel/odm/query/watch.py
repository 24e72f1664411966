"""Typed change streams of a model's documents. Spec: change-streams."""

from __future__ import annotations

import weakref
from collections.abc import Coroutine, Iterable
from dataclasses import dataclass
from functools import partial
from typing import Any, Generic, TypeVar

from mangonel import _core, timeout
from mangonel._arguments import expect
from mangonel._shared.collection.write_support import server_limits_flow
from mangonel._shared.cursors.cursor import refuse_second
from mangonel.bson import decode
from mangonel.odm._terminal import IS_ASYNC, terminal
from mangonel.odm._twins import ChangesTwins
from mangonel.odm.model.codec import loaded_id, raw_collection
from mangonel.odm.query.builder import limited_flow
from mangonel.odm.query.tenants import watched

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Event(Generic[T]):
    """One change.

    Attributes:
        operation: "insert", "update", "replace", "delete", "invalidate", ….
        id: `_id` of the document, or None.
        document: the current document, if the server sent it.
        before: the document before the change, if the collection keeps it.
        updated: the changed keys of an update with their values.
        removed: the keys that an update removed.
        token: token to resume the stream after this event.
    """

    operation: str
    id: Any
    document: T | None
    before: T | None
    updated: dict[str, Any]
    removed: list[str]
    token: dict[str, Any]


class Changes(Generic[T], ChangesTwins[T]):
    """A change stream of a model's collection, for `with` and `for`, or `async with` and `async for`.

    It is opened by the first of these or by the first `try_next`. Once closed, it stays closed: iteration ends.

    Example:
        >>> with Order.watch() as changes:
        ...     for event in changes:
        ...         print(event.operation, event.document)
    """

    # Whether a call is opening the stream. A second task or thread would open another.
    _is_opening = False
    _is_closed = False

    def __init__(self, query: Any, pipeline: Iterable[Any], options: dict[str, Any]) -> None:
        self._query = query
        self._model = query._model
        self._pipeline = list(expect("pipeline", pipeline, Iterable, "stages"))
        self._options = options
        self._stream: Any = None
        self._request: Any = None

    def _asked(self, is_async: bool) -> Any:
        """Return the request, made when the stream is opened: later context changes have no effect."""
        if self._request is None:
            self._request = self._query._request("watch", is_async)
        return self._request

    async def _open_flow(self, request: Any) -> Changes[T]:
        if self._stream is None and not self._is_closed:
            if self._is_opening:
                refuse_second("change stream", "change", "changes")
            self._is_opening = True
            try:
                self._stream = await self._opened_flow(request)
            finally:
                self._is_opening = False
            if self._is_closed:
                # Another task or thread closed it meanwhile.
                await request.port.call(self._stream.close)
        return self

    async def _opened_flow(self, request: Any) -> Any:
        keywords = {**request.keywords, **self._options}
        of_model = _of_family(self._query._conditions())
        if self._model.__tenant__ is not None:
            of_model += watched(self._model, self._options["full_document"])
            if of_model and "full_document_before_change" not in self._options:
                keywords |= await self._limited_flow(_images_flow, self._model, request)
        stages = [*of_model, *self._pipeline]
        act = partial(raw_collection(request.collection).watch, stages, **keywords)
        return await self._limited_flow(request.port.call, act)

    async def _limited_flow(self, act_flow: Any, *arguments: Any) -> Any:
        """Wait for one reply, within the query's time limit."""
        if self._query._seconds is None:
            return await act_flow(*arguments)
        return await limited_flow(self._query._seconds, act_flow, *arguments)

    async def _next_flow(self, request: Any, method: str) -> Event[T] | None:
        await self._open_flow(request)
        if self._stream is None:
            # Closed before it was opened.
            if method == "next":
                raise StopAsyncIteration
            return None
        found = await self._limited_flow(request.port.call, getattr(self._stream, method))
        return None if found is None else self._event(found)

    def _event(self, found: Any) -> Event[T]:
        values = decode(bytes(found.raw))
        description = values.get("updateDescription") or {}
        return Event(
            values["operationType"],
            loaded_id((values.get("documentKey") or {}).get("_id")),
            self._made(found.get("fullDocument")),
            self._made(found.get("fullDocumentBeforeChange")),
            dict(description.get("updatedFields") or {}),
            list(description.get("removedFields") or []),
            values["_id"],
        )

    def _made(self, document: Any) -> T | None:
        if document is None:
            return None
        origin = self._request.connection
        return _core.odm_decode_all(
            self._model.__model__,
            bytes(document.raw),
            self._query._wish.get("lazy", False),
            None,
            False,
            origin,
        )[0]

    @property
    def token(self) -> Any:
        """The resume token of the stream, a dict as in its events, or None before it is opened."""
        token = None if self._stream is None else self._stream.resume_token
        return None if token is None else dict(token)

    def __enter__(self) -> Changes[T]:
        request = self._asked(False)
        return request.port.flow(self._open_flow(request))

    def __exit__(self, *exc_info: object) -> None:
        self.close()

    def __iter__(self) -> Changes[T]:
        return self

    def __next__(self) -> Event[T]:
        self.__enter__()
        if self._stream is None:
            raise StopIteration
        # Not in a flow, since StopIteration cannot leave one.
        with timeout(self._query._seconds):
            return self._event(self._stream.next())

    @terminal
    def try_next(self) -> Event[T] | None:
        """Return the next change if one arrives within `max_await_time_ms`, or None; None too once it is closed."""
        request = self._asked(IS_ASYNC)
        return request.port.flow(self._next_flow(request, "try_next"))

    @terminal
    def close(self) -> None:
        """End the stream, on the server too. Closing twice does nothing."""
        self._is_closed = True
        ended: Any = _core.odm_finished(None) if IS_ASYNC else None
        if self._stream is not None:
            ended = self._stream.close()
        return ended

    def __aenter__(self) -> Coroutine[Any, Any, Changes[T]]:
        request = self._asked(True)
        return request.port.flow(self._open_flow(request))

    def __aexit__(self, *exc_info: object) -> Coroutine[Any, Any, None]:
        return self.aclose()

    def __aiter__(self) -> Changes[T]:
        return self

    def __anext__(self) -> Coroutine[Any, Any, Event[T]]:
        request = self._asked(True)
        return request.port.flow(self._next_flow(request, "next"))


def _of_family(query: dict[str, Any]) -> list[Any]:
    """Return the stage that leaves out other models of the collection; an event without a document is kept."""
    if not query:
        return []
    known = {f"fullDocument.{key}": value for key, value in query.items()}
    return [{"$match": {"$or": [known, {"fullDocument": None}]}}]


async def _images_flow(model: Any, request: Any) -> dict[str, Any]:
    """Return the option that requests each document before its change: it shows the tenant of a deletion.

    If the collection keeps no such documents, deletions are left out. The log warns of that once for each model.
    """
    collection = request.collection
    limits = await server_limits_flow(collection.database.client, "aggregate")
    if limits.max_wire_version >= _IMAGES_WIRE_VERSION:
        options = await request.port.call(collection.options, **request.session)
        if (options.get("changeStreamPreAndPostImages") or {}).get("enabled"):
            return {"full_document_before_change": "whenAvailable"}
    if model not in _told and model.__tenant__ not in model.__shard_key__:
        _told.add(model)
        import logging

        logging.getLogger("mangonel.odm").warning(
            "watch() of %s for one tenant leaves out deletions: the collection %r keeps no documents before changes; "
            'let it, by collMod or __collection_options__ = {"changeStreamPreAndPostImages": {"enabled": True}}',
            model.__name__,
            collection.name,
        )
    return {}


# MongoDB 6.0.
_IMAGES_WIRE_VERSION = 17
_told: weakref.WeakSet[Any] = weakref.WeakSet()
