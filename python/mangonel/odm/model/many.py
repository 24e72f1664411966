"""`Many`: the inverse of a reference field. Nothing is stored for it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic, TypeVar, get_args, overload

from mangonel._core import odm_finished, odm_origin, odm_siblings
from mangonel.odm._terminal import IS_ASYNC, terminal
from mangonel.odm._twins import ManyTwins
from mangonel.odm.errors import DocumentNotFound
from mangonel.odm.expressions.keys import key_of_name
from mangonel.odm.expressions.through import ManyPath
from mangonel.odm.model.advised import note_fetch
from mangonel.odm.model.annotations import evaluate
from mangonel.odm.model.fetched import Fetched, key_of_id

if TYPE_CHECKING:
    from mangonel.odm.query.query import Query
T = TypeVar("T")


class Many(Generic[T], ManyTwins[T]):
    """The inverse of a reference field: a query for the documents that reference this one.

    After `include()` it has the documents, which `values` and `all()` return.
    """

    __slots__ = ("_descriptor", "_instance", "_inverse", "_model")

    def __init__(self, descriptor: Any, instance: Any, model: Any) -> None:
        self._descriptor = descriptor
        self._inverse = descriptor.inverse
        self._instance = instance
        self._model = model

    if TYPE_CHECKING:

        @overload
        def __get__(self, instance: None, owner: Any) -> Any: ...
        @overload
        def __get__(self, instance: object, owner: Any) -> Many[T]: ...
        def __get__(self, instance: object, owner: Any) -> Any: ...

    def query(self, *where: Any) -> Query[T]:
        """Return the query, with further conditions, in the order of `many(order=…)`.

        Args:
            where: conditions, or query documents.

        Example:
            >>> class Author(Document):
            ...     books: Many["Book"] = many(by="author")
            >>> class Book(Document):
            ...     author: Ref[Author]
            >>> Author().save().books.query().count()
            0
        """
        key = key_of_name(self._inverse.by, self._model)
        query: Query[T] = self._model.find({key: self._instance.id}, *self._inverse.where, *where)
        query = query._from(odm_origin(self._instance))
        return query.sort(self._inverse.order) if self._inverse.order is not None else query

    def _fetched(self) -> Fetched | None:
        return odm_siblings([self._instance])[0].loaded.get(self._descriptor)

    def _known(self) -> list[T] | None:
        fetched = self._fetched()
        return None if fetched is None else fetched.get(key_of_id(self._instance.id))

    @property
    def is_loaded(self) -> bool:
        """Whether `include()` fetched the documents, so that `values` does not raise."""
        return self._known() is not None

    @property
    def values(self) -> list[T]:
        """The documents that `include()` fetched, as a new list.

        Raises:
            DocumentNotFound: they were not fetched: use `all()`, `aall()` or `include()`.
        """
        found = self._known()
        if found is None:
            name = f"{type(self._instance).__name__}.{self._inverse.name}"
            raise DocumentNotFound(f"{name} was not fetched; use all(), aall() or include()")
        return list(found)

    @terminal
    def all(self) -> list[T]:
        """Return the documents. After `include()` they are those that it fetched, and nothing is sent."""
        known = self._known()
        if known is not None:
            return odm_finished(list(known)) if IS_ASYNC else list(known)  # type: ignore[return-value]  # awaited
        query = self.query()
        request = query._request("all", IS_ASYNC)
        note_fetch(request, type(self._instance), self._inverse.name, "all()")
        return query._run_request(request, query._all_flow)

    @terminal
    def count(self) -> int:
        """Return the number of documents. Nothing is sent if `include()` fetched all of them."""
        fetched = self._fetched()
        known = self._known() if fetched is not None and fetched.is_whole else None
        if known is not None:
            return odm_finished(len(known)) if IS_ASYNC else len(known)  # type: ignore[return-value]  # awaited
        query = self.query()
        return query._run(IS_ASYNC, "count", query._count_flow)


class InverseDescriptor:
    """The class attribute in place of `many(…)`."""

    __slots__ = ("_target", "inverse")

    def __init__(self, inverse: Any) -> None:
        self.inverse = inverse
        self._target: Any = None

    @property
    def target(self) -> Any:
        """The model of the documents."""
        if self._target is None:
            annotation = evaluate(self.inverse.annotation, self.inverse.owner)
            found = get_args(annotation)[0]
            if not isinstance(found, type):
                found = evaluate(getattr(found, "__forward_arg__", found), self.inverse.owner)
            self._target = found
        return self._target

    def __get__(self, instance: Any, owner: Any) -> Any:
        if instance is None:
            return ManyPath(self, owner)
        return Many(self, instance, self.target)
