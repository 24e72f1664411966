"""The former states of documents that a transaction touches, so that an abort can restore them.

While any transaction runs, the core reports each document whose field is set or which returns a mutable value. The code
that stores documents reports the others.
"""

from __future__ import annotations

import weakref
from _thread import RLock
from collections.abc import Iterator
from contextvars import ContextVar
from typing import Any, Self

from mangonel import _core
from mangonel.odm.errors import ParallelSaveError, ValidationError
from mangonel.odm.model.convert import NEW, SAVING, UNCERTAIN, reduce, restore
from mangonel.odm.model.held_references import attach_documents, known_documents


class Former:
    """The state of a document at one moment, so that it can be restored."""

    __slots__ = ("_copy", "_document", "_known", "_origin", "_saved")

    def __init__(self, document: Any) -> None:
        self._document = document
        try:
            self._copy = reduce(document)[1]
        except ValidationError:
            # It holds a value that cannot be stored, so its state cannot be restored.
            self._copy = None
        self._known: dict[tuple[str, Any], Any] = {}
        self._origin = _core.odm_origin(document)
        self._saved = document.__saved_changes__()

    def with_references(self) -> Self:
        """Also keep the documents behind its references: the copy has only their ids."""
        self._known = known_documents(self._document)
        return self

    def put_back(self, is_doubtful: bool = False) -> None:
        """Restore the document's state; `is_doubtful`: later changes may be stored."""
        document, copy = self._document, self._copy
        if copy is None:
            return
        cls, data, flags, *rest = copy
        if is_doubtful and not flags & NEW:
            flags |= UNCERTAIN
        _core.odm_take(document, restore(cls, data, flags, *rest))
        attach_documents(document, self._known)
        document.__saved_changes__(self._saved)
        if self._origin is not None:
            _core.odm_set_origin(document, self._origin)


# The documents touched by this context's transaction.
_current: ContextVar[Touched | None] = ContextVar("mangonel_odm_touched", default=None)
# Returns them, or None.
recording = _current.get
# How many blocks of transactions run, in all contexts.
_running = 0
# The transactions of all contexts that are neither committed nor aborted. An abandoned one is removed by itself.
under_way: set[weakref.ref[Touched]] = set()
# Held to decide which of several threads stores a document. Reentrant: a finalizer may store one meanwhile.
_deciding = RLock()


class Touched:
    """The documents that one transaction touched, in their former states.

    Args:
        whole: the documents of the unit that this transaction is one attempt of. None: it belongs to no unit.
    """

    __slots__ = (
        "__weakref__",
        "_documents",
        "_is_doubtful",
        "_outer",
        "_reference",
        "_session",
        "_stored",
        "_token",
        "_whole",
    )

    def __init__(self, whole: Touched | None = None) -> None:
        # By identity: different documents may be equal.
        self._documents: dict[int, tuple[Any, Former]] = {}
        self._stored: dict[int, Any] = {}
        self._whole = self._outer = whole
        self._session: Any = None
        self._is_doubtful = False
        self._token: Any = None
        self._reference: weakref.ref[Touched] | None = None

    def begin(self, session: Any) -> None:
        """Start recording the documents that this context touches, and those that it stores in a session."""
        global _running
        self._session = session
        if self._outer is None:
            self._outer = recording()
        self._token = _current.set(self)
        self._reference = weakref.ref(self, under_way.discard)
        under_way.add(self._reference)
        _running += 1
        if _running == 1:
            _core.odm_watch(touch)

    def end(self) -> None:
        """Stop recording; the transaction is still to be committed or aborted."""
        global _running
        if self._token is None:
            return
        _current.reset(self._token)
        self._token = None
        _running -= 1
        if _running == 0:
            _core.odm_watch(None)

    def release(self) -> None:
        """Leave the documents to others: the transaction is committed or aborted."""
        if self._reference is not None:
            under_way.discard(self._reference)
        self._stored.clear()

    def add(self, document: Any) -> None:
        """Record a document's state, unless it was recorded before."""
        if id(document) not in self._documents:
            former = Former(document)
            self._documents[id(document)] = document, former
            # Only after it is recorded: reading a reference touches the document again.
            former.with_references()

    def doubt(self) -> None:
        """Note that it is unknown whether the transaction is committed."""
        self._is_doubtful = True
        if self._whole is not None:
            self._whole.doubt()

    def put_back(self) -> None:
        """Restore the state of every document."""
        for document, former in list(self._documents.values()):
            # Their records hold values that are not stored.
            _forget(document, _others(_chain(self)))
            former.put_back(self._is_doubtful and id(document) in self._stored)
        self._documents.clear()


def touch(document: Any) -> None:
    """Record a document that is about to change, if a transaction runs in this context.

    While another task or transaction stores it, nothing is recorded: an abort here must not undo the write there.
    """
    touched = recording()
    if touched is None or id(document) in touched._documents:
        return
    if not _core.odm_flags(document) & SAVING and not is_held(document):
        touched.add(document)


def is_held(document: Any) -> bool:
    """Whether another transaction has stored a document, and is neither committed nor aborted."""
    return any(id(document) in other._stored for other in _others(_chain(recording())))


def check_free(document: Any) -> None:
    """Refuse to reload a document that another transaction has stored: its values are not committed.

    Raises:
        ParallelSaveError: there is such a transaction.
    """
    if is_held(document):
        raise ParallelSaveError(
            f"expected to reload a {type(document).__name__} of which no save is under way, got one that a transaction "
            "has saved and neither committed nor aborted; wait for its end, then reload again"
        )


def renewed(document: Any) -> None:
    """Drop the states of a document that other transactions recorded: it is about to take the stored values."""
    _forget(document, _others(_chain(recording())))


def storing(document: Any, session: Any) -> None:
    """Record a document that is about to be stored, and drop the states of it that other transactions recorded.

    A save in another session or deployment does not belong to the transaction, even inside its block.

    Args:
        document: the document.
        session: the driver's session that stores it. None: it is stored without one.

    Raises:
        ParallelSaveError: another transaction has stored it, and is neither committed nor aborted.
    """
    if not under_way:
        return
    with _deciding:
        chain, own = _chain(recording()), _of_session(session)
        others = list(_others(own))
        if any(id(document) in other._stored for other in others):
            raise ParallelSaveError(
                f"expected one save of a {type(document).__name__} at a time, got another while a transaction that "
                "saved it is under way; wait for its end, then save again"
            )
        for other in others:
            former = other._documents.pop(id(document), None)
            if former is not None and own and other in chain:
                # A transaction of another deployment inside this one touched it first.
                own[0]._documents.setdefault(id(document), former)
        for one in own:
            one._stored[id(document)] = document
    if own:
        own[0].add(document)


def settled(document: Any, session: Any) -> None:
    """Drop the states of a document that other transactions recorded while it was stored, by hooks or other tasks.

    Args:
        document: the document; it was stored, or may have been.
        session: the driver's session that stored it, or None.
    """
    if under_way:
        with _deciding:
            _forget(document, _others(_of_session(session)))


def _of_session(session: Any) -> list[Touched]:
    """Return the documents of this context's transaction in a session, and those of its unit."""
    own: list[Touched] = []
    for one in _chain(recording()) if session is not None else ():
        if one._session is session or (own and own[-1]._whole is one):
            own.append(one)
    return own


def _forget(document: Any, touched: Iterator[Touched]) -> None:
    for one in touched:
        one._documents.pop(id(document), None)


def _chain(touched: Touched | None) -> list[Touched]:
    """Return the documents that a transaction touched, and those of the transactions around it."""
    found: list[Touched] = []
    while touched is not None:
        found.append(touched)
        touched = touched._outer
    return found


def _others(own: list[Touched]) -> Iterator[Touched]:
    """Return the documents that transactions other than these touched."""
    # A copy: other threads begin and end transactions.
    for one in tuple(under_way):
        other = one()
        if other is not None and other not in own:
            yield other
