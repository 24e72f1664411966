"""The former states of documents that a transaction touches, so that an abort can restore them.

While any transaction runs, the core reports each document whose field is set or which returns a mutable value. The code
that stores documents reports the others.
"""

from __future__ import annotations

from contextvars import ContextVar
from typing import Any, Self

from mangonel import _core
from mangonel.odm.errors import ValidationError
from mangonel.odm.model.convert import reduce, restore
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
        """Keep the documents behind its references too, of which the copy has only the ids."""
        self._known = known_documents(self._document)
        return self

    def put_back(self) -> None:
        """Restore the document's state."""
        document, copy = self._document, self._copy
        if copy is None:
            return
        _core.odm_take(document, restore(*copy))
        attach_documents(document, self._known)
        document.__saved_changes__(self._saved)
        if self._origin is not None:
            _core.odm_set_origin(document, self._origin)


# The documents touched by this context's transaction.
_current: ContextVar[Touched | None] = ContextVar("mangonel_odm_touched", default=None)
# Returns them, or None.
recording = _current.get
# How many transactions run, in all contexts.
_running = 0


class Touched:
    """The documents that one transaction touched, in their former states."""

    __slots__ = ("_documents", "_token")

    def __init__(self) -> None:
        # By identity: different documents may be equal.
        self._documents: dict[int, Former] = {}
        self._token: Any = None

    def begin(self) -> None:
        """Start recording touched documents in this context."""
        global _running
        self._token = _current.set(self)
        _running += 1
        if _running == 1:
            _core.odm_watch(touch)

    def end(self) -> None:
        """Stop recording."""
        global _running
        if self._token is None:
            return
        _current.reset(self._token)
        self._token = None
        _running -= 1
        if _running == 0:
            _core.odm_watch(None)

    def add(self, document: Any) -> None:
        """Record a document's state, unless it was recorded before."""
        if id(document) not in self._documents:
            self._documents[id(document)] = former = Former(document)
            # It is recorded by now: to read a reference touches the document again.
            former.with_references()

    def put_back(self) -> None:
        """Restore the state of every document."""
        for former in self._documents.values():
            former.put_back()
        self._documents.clear()


def touch(document: Any) -> None:
    """Record a document that is about to change, if a transaction runs in this context."""
    touched = recording()
    if touched is not None:
        touched.add(document)
