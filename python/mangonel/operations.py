"""The models for bulk_write and create_indexes. They check their arguments and run nothing.

Specs: crud, index-management.
"""

from __future__ import annotations

from mangonel._arguments import expect
from mangonel._core import make_directly, write_form
from mangonel._light import Generic, TypeVar
from mangonel._options.index_keys import hint_document, index_document, index_list, index_name
from mangonel.collation import validate_collation_or_none
from mangonel.common import (
    validate_boolean,
    validate_is_document_type,
    validate_is_mapping,
    validate_list,
    validate_ok_for_replace,
    validate_ok_for_update,
)
from mangonel.errors import InvalidOperation

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any, ClassVar

    from mangonel.typings import _CollationIn, _IndexKeyHint, _Pipeline

_DocumentType = TypeVar("_DocumentType", bound="Mapping[str, Any]")

__all__ = [
    "DeleteMany",
    "DeleteOne",
    "IndexModel",
    "InsertOne",
    "ReplaceOne",
    "SearchIndexModel",
    "UpdateMany",
    "UpdateOne",
]


class _WriteModel:
    """Base of all write models: equality, repr, and the form in a command.

    `_SHOWN` lists the attributes in the order of the repr; `_namespace` is shown only if it is set. The core reads the
    other constants and attributes (`_core.write_runs`).
    """

    __slots__ = ("_namespace", "_options")

    #: The write command that carries this model.
    _COMMAND: ClassVar[str]
    #: Whether a retry could change or delete documents that the first attempt did not.
    _REPEATS: ClassVar[bool] = False
    #: Whether an update changes all matching documents; None: it replaces one.
    _MULTI: ClassVar[bool | None]
    _SHOWN: ClassVar[tuple[str, ...]]

    _namespace: str | None
    # Rare options, by their names in the command. None: none are set.
    _options: dict[str, Any] | None

    def _statement(self) -> Any:
        """Return this write in the form of the command's array, after checking its documents."""
        statement, options = write_form(self), self._options
        if options is None:
            return statement
        if "collation" in options:
            options = {**options, "collation": validate_collation_or_none(options["collation"])}
        return statement | options

    @property
    def _collation(self) -> Any:
        return self._option("collation")

    @property
    def _array_filters(self) -> Any:
        return self._option("arrayFilters")

    @property
    def _hint(self) -> Any:
        return self._option("hint")

    @property
    def _sort(self) -> Any:
        return self._option("sort")

    def _option(self, name: str) -> Any:
        return None if self._options is None else self._options.get(name)

    def _required_namespace(self) -> str:
        """Return the namespace; a client's bulk_write needs one on each model."""
        if not self._namespace:
            raise InvalidOperation(
                f"MongoClient.bulk_write needs a namespace on each model; {type(self).__name__} has none"
            )
        # Checked before any write is sent; otherwise the core would check it only when it makes the command.
        found: str = expect("namespace", self._namespace, str, 'a str such as "shop.orders"')
        return found

    def _values(self) -> tuple[Any, ...]:
        return tuple(getattr(self, name) for name in self._SHOWN)

    def __eq__(self, other: object) -> bool:
        return self._values() == other._values() if type(other) is type(self) else NotImplemented

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        shown = (name for name in self._SHOWN if name != "_namespace" or self._namespace)
        return f"{type(self).__name__}({', '.join(repr(getattr(self, name)) for name in shown)})"


class InsertOne(_WriteModel, Generic[_DocumentType]):
    """Insert one document.

    Args:
        document: the document; a missing `_id` is added to it.
        namespace: `"database.collection"`; required by a client's bulk_write, and only allowed there.
    """

    __slots__ = ("_doc",)
    _COMMAND = "insert"
    _SHOWN = ("_doc", "_namespace")

    def __init__(self, document: _DocumentType, namespace: str | None = None) -> None:
        self._doc = document
        self._namespace = namespace
        self._options = None

    def _statement(self) -> Any:
        validate_is_document_type("document", self._doc)
        return self._doc


class _Delete(_WriteModel):
    __slots__ = ("_filter",)
    _COMMAND = "delete"
    _SHOWN = ("_filter", "_collation", "_hint", "_namespace")
    _LIMIT: ClassVar[int]

    def __init__(
        self,
        filter: Mapping[str, Any],
        collation: _CollationIn | None = None,
        hint: _IndexKeyHint | None = None,
        namespace: str | None = None,
    ) -> None:
        if filter is not None and type(filter) is not dict:
            validate_is_mapping("filter", filter)
        self._filter = filter
        self._namespace = namespace
        self._options = None
        if collation is not None or hint is not None:
            self._options = _options(collation=collation, hint=hint)


class DeleteOne(_Delete):
    """Delete the first document that matches.

    Args:
        filter: query document.
        collation: how strings compare.
        hint: index to use, by name or by keys.
        namespace: `"database.collection"`; required by a client's bulk_write, and only allowed there.
    """

    __slots__ = ()
    _LIMIT = 1


class DeleteMany(_Delete):
    """Delete all documents that match. Arguments as for DeleteOne."""

    __slots__ = ()
    _LIMIT = 0
    _REPEATS = True


class ReplaceOne(_WriteModel, Generic[_DocumentType]):
    """Replace the first document that matches.

    Args:
        filter: query document.
        replacement: the whole new document; `_id` does not change.
        upsert: True: insert the replacement if no document matches.
        collation: how strings compare.
        hint: index to use, by name or by keys.
        namespace: `"database.collection"`; required by a client's bulk_write, and only allowed there.
        sort: the order that decides which matching document is the first.
    """

    __slots__ = ("_doc", "_filter", "_upsert")
    _COMMAND = "update"
    _MULTI = None
    _SHOWN = ("_filter", "_doc", "_upsert", "_collation", "_hint", "_namespace", "_sort")

    def __init__(
        self,
        filter: Mapping[str, Any],
        replacement: _DocumentType,
        upsert: bool | None = None,
        collation: _CollationIn | None = None,
        hint: _IndexKeyHint | None = None,
        namespace: str | None = None,
        sort: Mapping[str, Any] | None = None,
    ) -> None:
        if type(filter) is not dict or upsert is not None:
            _check_filter_and_upsert(filter, upsert)
        self._filter = filter
        self._doc = replacement
        self._upsert = upsert
        self._namespace = namespace
        self._options = None
        if collation is not None or hint is not None or sort is not None:
            self._options = _options(collation=collation, hint=hint, sort=sort)

    def _statement(self) -> Any:
        validate_ok_for_replace(self._doc)
        return super()._statement()


class _Update(_WriteModel):
    __slots__ = ("_doc", "_filter", "_upsert")
    _COMMAND = "update"
    _SHOWN = (
        "_filter",
        "_doc",
        "_upsert",
        "_collation",
        "_array_filters",
        "_hint",
        "_namespace",
        "_sort",
    )

    def __init__(
        self,
        filter: Mapping[str, Any],
        update: Mapping[str, Any] | _Pipeline,
        upsert: bool | None = None,
        collation: _CollationIn | None = None,
        array_filters: list[Mapping[str, Any]] | None = None,
        hint: _IndexKeyHint | None = None,
        namespace: str | None = None,
        sort: Mapping[str, Any] | None = None,
    ) -> None:
        if type(filter) is not dict or upsert is not None:
            _check_filter_and_upsert(filter, upsert)
        self._filter = filter
        self._doc = update
        self._upsert = upsert
        self._namespace = namespace
        self._options = None
        if collation is not None or array_filters is not None or hint is not None or sort is not None:
            if array_filters is not None:
                validate_list("array_filters", array_filters)
            self._options = _options(collation=collation, arrayFilters=array_filters, hint=hint, sort=sort)

    def _statement(self) -> Any:
        validate_ok_for_update(self._doc)
        return super()._statement()


class UpdateOne(_Update):
    """Change the first document that matches.

    Args:
        filter: query document.
        update: update operators, or an aggregation pipeline.
        upsert: True: insert a document made from filter and update if no document matches.
        collation: how strings compare.
        array_filters: which elements of arrays to change.
        hint: index to use, by name or by keys.
        namespace: `"database.collection"`; required by a client's bulk_write, and only allowed there.
        sort: the order that decides which matching document is the first.
    """

    __slots__ = ()
    _MULTI = False


class UpdateMany(_Update):
    """Change all documents that match. Arguments as for UpdateOne, without `sort`."""

    __slots__ = ()
    _MULTI = True
    _REPEATS = True

    def __init__(
        self,
        filter: Mapping[str, Any],
        update: Mapping[str, Any] | _Pipeline,
        upsert: bool | None = None,
        collation: _CollationIn | None = None,
        array_filters: list[Mapping[str, Any]] | None = None,
        hint: _IndexKeyHint | None = None,
        namespace: str | None = None,
    ) -> None:
        super().__init__(filter, update, upsert, collation, array_filters, hint, namespace)


class IndexModel:
    """An index to create.

    Args:
        keys: a key, a list of keys, or (key, direction) pairs; a key alone is ascending.
        kwargs: options of the index, such as `name`, `unique`, `sparse`, `expireAfterSeconds`,
            `partialFilterExpression`, `collation` and `hidden`; sent to the server unchanged. The default name is made
            from the keys: `a_1_b_-1`.

    Raises:
        TypeError, ValueError: the keys or the collation are wrong.
    """

    __slots__ = ("_document",)

    def __init__(self, keys: _IndexKeyHint, **kwargs: Any) -> None:
        pairs = index_list(keys)
        if kwargs.get("name") is None:
            kwargs["name"] = index_name(pairs)
        kwargs["key"] = index_document(pairs)
        collation = validate_collation_or_none(kwargs.pop("collation", None))
        if collation is not None:
            kwargs["collation"] = collation
        self._document = kwargs

    @property
    def document(self) -> dict[str, Any]:
        """The index in the form of createIndexes."""
        return self._document

    def __repr__(self) -> str:
        options = "".join(f", {name}={value!r}" for name, value in self._document.items() if name != "key")
        return f"{type(self).__name__}({self._document['key']}{options})"

    def __eq__(self, other: object) -> bool:
        return self._document == other._document if type(other) is type(self) else NotImplemented

    __hash__ = None  # type: ignore[assignment]


class SearchIndexModel:
    """A search index to create.

    Args:
        definition: the mappings, analyzers and so on.
        name: the name of the index. None: the server's default name.
        type: `"search"` (the server's default) or `"vectorSearch"`.
        kwargs: sent to the server unchanged.
    """

    __slots__ = ("_document",)

    def __init__(
        self, definition: Mapping[str, Any], name: str | None = None, type: str | None = None, **kwargs: Any
    ) -> None:
        document = {"name": name, "definition": definition, "type": type}
        self._document = {key: value for key, value in document.items() if value is not None}
        self._document["definition"] = definition
        self._document.update(kwargs)

    @property
    def document(self) -> Mapping[str, Any]:
        """The index in the form of createSearchIndexes."""
        return self._document

    def __repr__(self) -> str:
        options = ", ".join(f"{name}={value!r}" for name, value in self._document.items())
        return f"{self.__class__.__name__}({options})"

    def __eq__(self, other: object) -> bool:
        return self._document == other._document if isinstance(other, SearchIndexModel) else NotImplemented

    __hash__ = None  # type: ignore[assignment]


_OF_UPDATES = ["_filter", "_doc"], ["_upsert", "_namespace", "_options"]
_OF_DELETES = ["_filter"], ["_namespace", "_options"]
make_directly(
    [
        (InsertOne, ["_doc"], ["_namespace", "_options"]),
        *((model, *_OF_UPDATES) for model in (UpdateOne, UpdateMany, ReplaceOne)),
        *((model, *_OF_DELETES) for model in (DeleteOne, DeleteMany)),
    ]
)


def _check_filter_and_upsert(filter: Any, upsert: Any) -> None:
    if filter is not None:
        validate_is_mapping("filter", filter)
    if upsert is not None:
        validate_boolean("upsert", upsert)


def _options(**options: Any) -> dict[str, Any]:
    if options["hint"] is not None:
        options["hint"] = hint_document(options["hint"])
    return {name: value for name, value in options.items() if value is not None}
