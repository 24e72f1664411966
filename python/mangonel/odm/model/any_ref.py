"""`AnyRef`: a reference to a document of any model, stored as a DBRef with the collection's name."""

from __future__ import annotations

from typing import Any

from mangonel._core import odm_finished
from mangonel.bson import DBRef
from mangonel.odm._registry import documents, is_document
from mangonel.odm._terminal import IS_ASYNC, terminal
from mangonel.odm._twins import AnyRefTwins
from mangonel.odm.errors import DocumentNotFound


class AnyRef(AnyRefTwins):
    """A reference to a document of any model. `Ref` references one model, and can be included.

    Args:
        document: the target, which must have an id.

    Attributes:
        collection: name of the target's collection.
        database: name of the target's database, if another mapper stored one.
        id: id of the target.

    Example:
        >>> class Vote(Document):
        ...     on: AnyRef
        >>> Vote(on=AnyRef(user)).save().on.get().name
        'Ada'
    """

    __slots__ = ("_loaded", "collection", "database", "id")
    # Conditions make one from a document in a comparison.
    __is_any_ref__ = True

    def __init__(self, document: Any) -> None:
        if not is_document(document):
            raise TypeError(f"expected a document for an AnyRef, got {type(document).__name__}")
        self._loaded = document
        self.collection: str = document.__collection_name__()
        self.database: str | None = None
        self.id: Any = document.id

    @property
    def model(self) -> Any:
        """The document class of this collection; the root class if a family shares it.

        Raises:
            DocumentNotFound: no model has this collection.
        """
        found = [model for model in documents() if model.__collection_name__() == self.collection]
        if not found:
            raise DocumentNotFound(
                f"no model has the collection {self.collection!r} that {self!r} names; "
                "import the module that defines it"
            )
        # A later model with the same name replaces the earlier one; members of a family come after its root.
        roots = [model for model in found if not any(base in found for base in model.__mro__[1:])]
        return roots[-1]

    @property
    def is_loaded(self) -> bool:
        """Whether the document was fetched, so that `get()` sends nothing."""
        return self._loaded is not None

    @terminal
    def get(self) -> Any:
        """Return the document; fetch it through the connection of this context if needed.

        Raises:
            DocumentNotFound: it does not exist, or no model has its collection.
        """
        if self._loaded is not None:
            return odm_finished(self._loaded) if IS_ASYNC else self._loaded
        request = self._request(IS_ASYNC)
        return request.port.flow(self._fetch_flow(request))

    def _request(self, is_async: bool) -> Any:
        query = self.model.unscoped({"_id": self.id}).eager()
        return (query if self.database is None else query.using(self.database))._request("one", is_async)

    async def _fetch_flow(self, request: Any) -> Any:
        self._loaded = await request.query._single_flow(request)
        return self._loaded

    def __eq__(self, other: object) -> bool:
        if isinstance(other, AnyRef):
            return (self.collection, self.database, self.id) == (other.collection, other.database, other.id)
        if is_document(other):
            same = self.collection == other.__collection_name__()  # type: ignore[attr-defined]
            return same and bool(self.id == other.id)  # type: ignore[attr-defined]
        return NotImplemented

    def __hash__(self) -> int:
        return hash((self.collection, repr(self.id)))

    def __repr__(self) -> str:
        return f"AnyRef({self.collection!r}, {self.id!r})"

    @classmethod
    def __from_bson__(cls, value: Any) -> AnyRef:
        if is_document(value):
            return cls(value)
        if not isinstance(value, DBRef):
            raise ValueError(f"expected a DBRef, got {type(value).__name__}")
        made = cls.__new__(cls)
        made._loaded, made.collection, made.database, made.id = (
            None,
            value.collection,
            value.database,
            value.id,
        )
        return made

    def __to_bson__(self) -> DBRef:
        return DBRef(self.collection, self.id, self.database)
