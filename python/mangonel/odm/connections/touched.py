"""Documents as they were before a transaction touched them, so that an abort puts them back.

The core tells of each document whose field is set, or that hands out something that may change, while a transaction
runs anywhere; what stores documents tells of the others.
"""

from __future__ import annotations

from contextvars import ContextVar
from typing import Any

from mangonel import _core
from mangonel.odm.errors import ValidationError
from mangonel.odm.model.belongs_to import held
from mangonel.odm.model.convert import reduce, restore


class Former:
    """What a document is like at a moment, so that it can become that again."""

    __slots__ = ("_copy", "_document", "_origin")

    def __init__(self, document: Any) -> None:
        self._document = document
        try:
            self._copy = reduce(document)[1]
        except ValidationError:
            # It holds what cannot be stored; nobody can make it again.
            self._copy = None
        self._origin = _core.odm_origin(document)

    def put_back(self) -> None:
        """Let the document be what it was."""
        document, copy = self._document, self._copy
        if copy is None:
            return
        _core.odm_take(document, restore(*copy))
        for name in copy[4] if len(copy) > 4 else ():
            if held(document, name) is None:
                # What is stored is not known here, so None counts as a change only once it is set.
                setattr(document, name, None)
        if self._origin is not None:
            _core.odm_set_origin(document, self._origin)


# The documents of the transaction that runs in this context.
_current: ContextVar[Touched | None] = ContextVar("mangonel_odm_touched", default=None)
# How many transactions run, in all contexts.
_running = 0


class Touched:
    """The documents that one transaction touched, as they were before."""

    __slots__ = ("_documents", "_token")

    def __init__(self) -> None:
        # By identity: documents may be equal and not the same.
        self._documents: dict[int, Former] = {}
        self._token: Any = None

    def begin(self) -> None:
        """Record what is touched in this context from now on."""
        global _running
        self._token = _current.set(self)
        _running += 1
        if _running == 1:
            _core.odm_watch(touch)

    def end(self) -> None:
        """Record no more."""
        global _running
        if self._token is None:
            return
        _current.reset(self._token)
        self._token = None
        _running -= 1
        if _running == 0:
            _core.odm_watch(None)

    def add(self, document: Any) -> None:
        """Remember what a document is like, unless that was done before."""
        if id(document) not in self._documents:
            self._documents[id(document)] = Former(document)

    def put_back(self) -> None:
        """Let every document be what it was."""
        for former in self._documents.values():
            former.put_back()
        self._documents.clear()


def touch(document: Any) -> None:
    """Remember a document that is about to change, where a transaction runs in this context."""
    touched = _current.get()
    if touched is not None:
        touched.add(document)
