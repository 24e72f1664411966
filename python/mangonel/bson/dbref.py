"""A reference to a document of another collection. Spec: dbref.

It is stored as a document with the keys `$ref`, `$id`, optionally `$db`, then any others.
"""

from __future__ import annotations

from mangonel._arguments import expect
from mangonel._light import Mapping
from mangonel.bson import schema_of
from mangonel.bson.son import SON

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


class DBRef:
    """The name of a collection and the `_id` of a document in it.

    Args:
        collection: name of the collection.
        id: the `_id` of the document.
        database: name of the database. None: the database that holds the reference.
        _extra: more keys, for names that are not Python identifiers.
        **kwargs: more keys; each is readable as an attribute.

    Raises:
        TypeError: `collection` or `database` is not a str.

    Example:
        >>> DBRef("users", 7, note="moved").note
        'moved'
    """

    __slots__ = ("__collection", "__database", "__id", "__kwargs")
    _type_marker = 100

    def __init__(
        self,
        collection: str,
        id: Any,
        database: str | None = None,
        _extra: Mapping[str, Any] | None = None,
        **kwargs: Any,
    ) -> None:
        expect("collection", collection, str, "str")
        if database is not None and not isinstance(database, str):
            raise TypeError(f'expected str for "database", got {type(database).__name__}')
        self.__collection = collection
        self.__id = id
        self.__database = database
        if _extra is not None and not isinstance(_extra, Mapping):
            raise TypeError(f'expected a mapping for "_extra", got {type(_extra).__name__}')
        kwargs.update(_extra or {})
        self.__kwargs = kwargs

    @property
    def collection(self) -> str:
        """Name of the collection."""
        return self.__collection

    @property
    def id(self) -> Any:
        """The `_id` of the document."""
        return self.__id

    @property
    def database(self) -> str | None:
        """Name of the database, or None."""
        return self.__database

    def __getattr__(self, key: Any) -> Any:
        # Reading a slot that is not set yet gets here too (copy and pickle create empty objects first).
        if not key.startswith("_DBRef__"):
            try:
                return self.__kwargs[key]
            except KeyError:
                pass
        raise AttributeError(key)

    def as_doc(self) -> SON[str, Any]:
        """Return the reference in its stored form, as a document."""
        document: SON[str, Any] = SON([("$ref", self.__collection), ("$id", self.__id)])
        if self.__database is not None:
            document["$db"] = self.__database
        document.update(self.__kwargs)
        return document

    def __getstate__(self) -> Mapping[Any, Any]:
        return {
            "_DBRef__collection": self.__collection,
            "_DBRef__database": self.__database,
            "_DBRef__id": self.__id,
            "_DBRef__kwargs": self.__kwargs,
        }

    def __setstate__(self, state: Any) -> None:
        self.__collection = state["_DBRef__collection"]
        self.__database = state["_DBRef__database"]
        self.__id = state["_DBRef__id"]
        self.__kwargs = state["_DBRef__kwargs"]

    def __repr__(self) -> str:
        parts = [repr(self.__collection), repr(self.__id)]
        if self.__database is not None:
            parts.append(repr(self.__database))
        parts += [f"{key}={value!r}" for key, value in self.__kwargs.items()]
        return f"DBRef({', '.join(parts)})"

    def __eq__(self, other: object) -> bool:
        if isinstance(other, DBRef):
            return bool(
                self.__collection == other.__collection
                and self.__database == other.__database
                and self.__id == other.__id
                and self.__kwargs == other.__kwargs
            )
        return NotImplemented

    def __hash__(self) -> int:
        return hash((self.__collection, self.__id, self.__database, tuple(sorted(self.__kwargs.items()))))

    def __deepcopy__(self, memo: Any) -> DBRef:
        from copy import deepcopy

        return DBRef(
            self.__collection,
            deepcopy(self.__id, memo),
            self.__database,
            deepcopy(self.__kwargs, memo),
        )

    __get_pydantic_core_schema__ = classmethod(schema_of)
