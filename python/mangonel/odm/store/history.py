"""`Audited` and `Versioned`: `store/recording.py` keeps the changes of such models in a second collection."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, ClassVar, Generic, Self, TypeVar

from mangonel import _core
from mangonel.bson import decode
from mangonel.odm._terminal import IS_ASYNC, terminal
from mangonel.odm._twins import AuditedTwins, VersionedTwins
from mangonel.odm.connections.connection import connection
from mangonel.odm.connections.place import Place, place_of
from mangonel.odm.errors import ValidationError
from mangonel.odm.expressions.values import dump
from mangonel.odm.model.codec import raw_collection
from mangonel.odm.model.invalid import located
from mangonel.odm.model.refs import stored_id
from mangonel.odm.store.document import Document
from mangonel.odm.store.recording import Recorder, actor, entries_of, kept_filter

T = TypeVar("T")

_RECORDER = Recorder()


@contextmanager
def acting_as(who: Any) -> Iterator[None]:
    """Name the author of the changes in the block, in this thread or task only.

    Args:
        who: any value that can be stored, such as a name or an id.

    Example:
        >>> with acting_as("ada"):
        ...     user.save()
    """
    token = actor.set(who)
    try:
        yield
    finally:
        actor.reset(token)


@dataclass(frozen=True, slots=True)
class Revision(Generic[T]):
    """One recorded change of a document.

    Attributes:
        number: 1 for the first recorded change, and so on.
        at: time of the change, by the clock of the program that made it. It never decreases within a history.
        by: its author, of `acting_as` or of the model's `__actor__`; None if neither names one.
        operation: "insert", "update" or "delete".
        changes: the changed attributes, each with its old and its new value as stored; None for a missing value.
            A key without a field keeps its name.
        document: the document as it was after the change, for a `Versioned` model; None after a deletion.
    """

    number: int
    at: datetime
    by: Any
    operation: str
    changes: dict[str, tuple[Any, Any]]
    document: T | None


class Audited(Document, AuditedTwins):
    """Keeps the author, time and fields of each change: each write also stores an entry, in the same transaction.

    This applies to every write by the mapper: saves, bulk saves, updates and deletions by query, upserts and delete
    rules. A write outside a transaction runs in its own transaction, and again after a conflict with another writer, so
    the hooks of the model may run more than once. It needs a replica set or a sharded cluster.

    - `__history__`: name of the collection with the entries; by default the model's with `_history` appended.
    - `__actor__`: a static method without arguments that returns the author. None: that of `acting_as`.

    Example:
        >>> class Contract(Audited):  # a Document
        ...     title: str
        >>> with acting_as("ada"):
        ...     contract = Contract(title="Tea").save()
        >>> [(one.by, one.operation, one.changes["title"]) for one in contract.history()]
        [('ada', 'insert', (None, 'Tea'))]
    """

    __abstract__ = True
    __store__ = _RECORDER
    __recorder__ = _RECORDER
    __snapshots__: ClassVar[bool] = False
    __history__: ClassVar[str | None] = None
    __actor__: ClassVar[Callable[[], Any] | None] = None

    @terminal
    def history(self, *, session: Any = None) -> list[Revision[Self]]:
        """Return the recorded changes of the document, the oldest first; also after its deletion.

        Args:
            session: the driver's session; None: that of the context, if any.

        Raises:
            ValidationError: a kept state of a `Versioned` document does not fit the model as it is now.

        Example:
            >>> class Contract(Audited):  # a Document
            ...     title: str
            >>> contract = Contract(title="Tea").save()
            >>> [one.operation for one in contract.history()]
            ['insert']
        """
        place = place_of(self, IS_ASYNC, session)
        id = dict(_core.odm_filter(self))["_id"]
        return place.port.flow(_history_flow(self.__class__, place, id))

    @classmethod
    @terminal
    def history_of(cls, id: Any, *, session: Any = None) -> list[Revision[Self]]:
        """Return the recorded changes of the document with this id, which may have been deleted.

        Args:
            id: the id, or a value that converts to it, such as the text of an ObjectId.
            session: the driver's session; None: that of the context, if any.

        Example:
            >>> class Contract(Audited):  # a Document
            ...     title: str
            >>> contract = Contract(title="Tea").save()
            >>> contract.delete()
            >>> [one.operation for one in Contract.history_of(contract.id)]
            ['insert', 'delete']
        """
        place = Place(connection(cls.__connection__), cls, IS_ASYNC, session)
        return place.port.flow(_history_flow(cls, place, _stored(cls, id)))


class Versioned(Audited, VersionedTwins):
    """Keeps, in addition to the entries of `Audited`, the whole document after each change, so that `at()` returns it.

    Example:
        >>> class Contract(Versioned):  # a Document
        ...     title: str
        >>> contract = Contract(title="Tea").save()
        >>> contract.title = "Coffee"
        >>> [one.document.title for one in contract.save().history()]
        ['Tea', 'Coffee']
    """

    __abstract__ = True
    __snapshots__: ClassVar[bool] = True

    @terminal
    def at(self, time: datetime, *, session: Any = None) -> Self | None:
        """Return the document as it was at a time, or None if it did not exist then.

        Returns another instance. Its `replace()` stores the former state again.

        Args:
            time: with a time zone; a time without one means UTC.
            session: the driver's session; None: that of the context, if any.

        Raises:
            ValidationError: the kept state does not fit the model as it is now.

        Example:
            >>> class Contract(Versioned):  # a Document
            ...     title: str
            >>> contract = Contract(title="Tea").save()
            >>> before = contract.history()[-1].at
            >>> contract.at(before).title, contract.at(before - datetime.timedelta(days=1))
            ('Tea', None)
        """
        place = place_of(self, IS_ASYNC, session)
        id = dict(_core.odm_filter(self))["_id"]
        return place.port.flow(_at_flow(self.__class__, place, id, time))

    @classmethod
    @terminal
    def get_at(cls, id: Any, time: datetime, *, session: Any = None) -> Self | None:
        """Return the document with this id as it was at a time, or None if it did not exist then.

        Args:
            id: the id, or a value that converts to it, such as the text of an ObjectId.
            time: with a time zone; a time without one means UTC.
            session: the driver's session; None: that of the context, if any.

        Raises:
            ValidationError: the kept state does not fit the model as it is now.

        Example:
            >>> class Contract(Versioned):  # a Document
            ...     title: str
            >>> contract = Contract(title="Tea").save()
            >>> Contract.get_at(contract.id, datetime.datetime(2001, 1, 1)) is None
            True
        """
        place = Place(connection(cls.__connection__), cls, IS_ASYNC, session)
        return place.port.flow(_at_flow(cls, place, _stored(cls, id), time))


def _stored(cls: Any, id: Any) -> Any:
    """Return an id in its stored form."""
    return stored_id(dump(cls, cls.__plan__.id, id))


async def _history_flow(cls: Any, place: Place, id: Any) -> list[Revision[Any]]:
    rows = (
        await _entries(cls, place)
        .find(kept_filter(cls, id), sort={"_id": 1}, **place.session)
        ._to_list_flow(None)
    )
    options = entries_of(place.collection, cls).codec_options
    return [_revision(cls, place, decode(row.raw, options), row) for row in rows]


async def _at_flow(cls: Any, place: Place, id: Any, time: datetime) -> Any:
    entries, moment = _entries(cls, place), time if time.tzinfo is not None else time.replace(tzinfo=UTC)
    query = {**kept_filter(cls, id), "at": {"$lte": moment}}
    rows = await entries.find(query, sort={"_id": -1}, limit=1, **place.session)._to_list_flow(None)
    if rows:
        return _made(cls, place, rows[0]["document"])
    # The document is older than its history: the first entry has the state before it.
    rows = await entries.find(kept_filter(cls, id), sort={"_id": 1}, limit=1, **place.session)._to_list_flow(
        None
    )
    return _made(cls, place, rows[0].get("before")) if rows else None


def _entries(cls: Any, place: Place) -> Any:
    return raw_collection(entries_of(place.collection, cls))


def _revision(cls: Any, place: Place, entry: dict[str, Any], raw: Any) -> Revision[Any]:
    names = {key: field.name for key, field in cls.__plan__.by_key.items()}
    changes = {
        names.get(change["key"], change["key"]): (change.get("old"), change.get("new"))
        for change in entry["changes"]
    }
    at = entry["at"]
    return Revision(
        entry["_id"]["number"],
        at.replace(tzinfo=UTC) if at.tzinfo is None else at,
        entry["by"],
        entry["operation"],
        changes,
        _made(cls, place, raw.get("document")),
    )


def _made(cls: Any, place: Place, document: Any) -> Any:
    """Return the instance for a kept state, or None."""
    if document is None:
        return None
    try:
        return _core.odm_decode_all(cls.__model__, document.raw, False, None, False, place.connection)[0]
    except ValidationError as error:
        raise located(error, cls, place.collection.name) from None
