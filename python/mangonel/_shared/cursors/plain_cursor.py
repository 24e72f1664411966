"""Lets a class derive from `Cursor` and from a class with slots, as umongo's cursor does.

`Cursor` keeps its batch in a native base, and a class can have only one memory layout. Such a class gets a Python base
that does the same; `isinstance` and `issubclass` treat it as a cursor. Knows no libraries.
"""

from __future__ import annotations

from mangonel._light import Generic
from mangonel._shared.cursors.find_cursor import _Cursor
from mangonel._shared.cursors.iteration import BlockingIteration
from mangonel.typings import _DocumentType

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Self

    from mangonel import _core


class CursorMeta(type):
    """The metaclass of `Cursor`: a class that cannot derive from `Cursor` gets the base `PlainCursor` instead."""

    def __new__(mcs, name: str, bases: tuple[type, ...], namespace: dict[str, Any]) -> CursorMeta:
        try:
            return super().__new__(mcs, name, bases, namespace)
        except TypeError:
            # The layouts conflict. Any other error is raised again.
            if not any(isinstance(base, CursorMeta) for base in bases):
                raise
            joined = tuple(PlainCursor if isinstance(base, CursorMeta) else base for base in bases)
            return super().__new__(mcs, name, joined, namespace)

    def __instancecheck__(cls, instance: object) -> bool:
        return cls.__subclasscheck__(type(instance))

    def __subclasscheck__(cls, subclass: type) -> bool:
        # Joined classes count as subclasses of the public `Cursor`, although they lack its native base.
        is_joined = PlainCursor in subclass.__mro__ and cls.__module__ == "mangonel.api"
        return is_joined or super().__subclasscheck__(subclass)


class PlainCursor(
    BlockingIteration[_DocumentType], _Cursor[_DocumentType], Generic[_DocumentType], metaclass=CursorMeta
):
    """A blocking cursor whose batch is an ordinary attribute."""

    _held: _core.Batch | None = None
    _before = 0

    @property
    def _batch(self) -> _core.Batch | None:
        return self._held

    @_batch.setter
    def _batch(self, batch: _core.Batch | None) -> None:
        self._before, self._held = self._retrieved, batch

    def _take_last(self, batch: _core.Batch) -> bool | None:
        if batch.id or batch.pinned is not None:
            return None
        self._batch = batch
        return not batch.is_empty

    @property
    def _retrieved(self) -> int:
        return self._before + (0 if self._held is None else self._held.size)

    @_retrieved.setter
    def _retrieved(self, before: int) -> None:
        self._before = before

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Any:
        while True:
            for document in self._batch or ():
                return document
            if not self._refill():
                raise StopIteration
