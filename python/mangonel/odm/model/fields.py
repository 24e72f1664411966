"""Declarations for the right-hand side of an annotation or inside `Annotated`: fields, indexes, versions, inverses.

Knows no connection and no query.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from dataclasses import field as _dataclass_field
from typing import TYPE_CHECKING, Any, Literal, TypedDict, TypeVar, Unpack, get_origin, overload

from mangonel._arguments import expect, without_none
from mangonel.odm.model.spelling import check_index_options

if TYPE_CHECKING:
    from mangonel.odm.expressions.paths import Mapped
    from mangonel.odm.model.refs import Refs

K = TypeVar("K")
T = TypeVar("T")

MISSING: Any = type("Missing", (), {"__repr__": lambda self: "MISSING", "__bool__": lambda self: False})()


@dataclass(slots=True)
class FieldInfo:
    """The arguments of `field(...)`, with the metaclass's additions: name, annotation, class."""

    default: Any = MISSING
    default_factory: Callable[[], Any] | None = None
    key: str | None = None
    lazy: bool | None = None
    frozen: bool = False
    on_delete: str | None = None
    touch: bool = False
    name: str = ""
    annotation: Any = None
    owner: type[Any] | None = None


class _Options(TypedDict, total=False):
    key: str | None
    lazy: bool | None
    frozen: bool
    on_delete: str | None
    touch: bool
    init: bool


@overload
def field(*, default: T, **options: Unpack[_Options]) -> T: ...
# From the class alone, pyright would not know the type of the elements.
@overload
def field(*, default_factory: type[list[T]], **options: Unpack[_Options]) -> list[T]: ...
@overload
def field(*, default_factory: type[set[T]], **options: Unpack[_Options]) -> set[T]: ...
@overload
def field(*, default_factory: type[dict[K, T]], **options: Unpack[_Options]) -> dict[K, T]: ...
@overload
def field(*, default_factory: type[Refs[T]], **options: Unpack[_Options]) -> Refs[T]: ...
@overload
def field(*, default_factory: Callable[[], T], **options: Unpack[_Options]) -> T: ...
@overload
def field(**options: Unpack[_Options]) -> Any: ...
def field(
    *,
    default: Any = MISSING,
    default_factory: Callable[[], Any] | None = None,
    key: str | None = None,
    lazy: bool | None = None,
    frozen: bool = False,
    on_delete: str | None = None,
    touch: bool = False,
    init: bool = True,
) -> Any:
    """Set the options of a field: its default, its key in the database and so on.

    Args:
        default: value if none is given, and for stored documents without the key.
        default_factory: called for each such value; use it for mutable ones.
        key: name in the database. None: the attribute's name.
        lazy: True: leave the value undecoded until it is read, in every query. False: never. None: leave containers and
            embedded documents undecoded if a query returns more than one document.
        frozen: refuse to set it once the document is stored.
        on_delete: for a reference: the effect of deleting its target on this document: "cascade", "nullify", "deny" or
            "pull" (out of a list). None: none.
        touch: for a reference to a model with `Timestamps`: saving or deleting this document sets `updated_at` there.
        init: for type checkers only: whether the constructor accepts it.

    Raises:
        TypeError, ValueError: two defaults, or another value of `on_delete`.

    Example:
        >>> tags: list[str] = field(default_factory=list, key="t")
    """
    if default is not MISSING and default_factory is not None:
        raise TypeError("expected default or default_factory, got both")
    if on_delete not in (None, "cascade", "nullify", "deny", "pull"):
        raise ValueError(f'expected "cascade", "nullify", "deny" or "pull" for on_delete, got {on_delete!r}')
    return FieldInfo(default, default_factory, key, lazy, frozen, on_delete, touch=touch)


if TYPE_CHECKING:

    @overload
    def mapped(*, default: T, **options: Unpack[_Options]) -> Mapped[T]: ...
    @overload
    def mapped(*, default_factory: type[list[T]], **options: Unpack[_Options]) -> Mapped[list[T]]: ...
    @overload
    def mapped(*, default_factory: type[set[T]], **options: Unpack[_Options]) -> Mapped[set[T]]: ...
    @overload
    def mapped(*, default_factory: type[dict[K, T]], **options: Unpack[_Options]) -> Mapped[dict[K, T]]: ...
    @overload
    def mapped(*, default_factory: Callable[[], T], **options: Unpack[_Options]) -> Mapped[T]: ...
    @overload
    def mapped(**options: Unpack[_Options]) -> Any: ...
    def mapped(**options: Any) -> Any:
        """Like `field`, for a `Mapped` attribute: `score: Mapped[float] = mapped(default=0.0)`."""

else:
    mapped = field


def now() -> dt.datetime:
    """Return the current time in UTC, in whole milliseconds like BSON dates: `field(default_factory=now)`."""
    moment = dt.datetime.now(dt.UTC)
    return moment.replace(microsecond=moment.microsecond // 1000 * 1000)


class Version:
    """Marks the field that counts saves, for optimistic locking: `rev: Annotated[int, Version] = 0`."""


class Indexed:
    """Declares an index on one field, inside `Annotated`.

    Args:
        kind: 1 or -1, or "text", "2dsphere", "hashed".
        unique, sparse, name: as for an index of the driver.
        expire_after: seconds after the field's date at which the server deletes the document.
        options: any other option of `IndexModel`.

    Raises:
        TypeError: an option is misspelt.
    """

    __slots__ = ("kind", "options")

    def __init__(
        self,
        kind: int | str = 1,
        *,
        unique: bool = False,
        sparse: bool = False,
        expire_after: int | None = None,
        name: str | None = None,
        **options: Any,
    ) -> None:
        self.kind = kind
        self.options = _index_options(unique, sparse, expire_after, name, options)


class Index:
    """Declares an index of a model, in `__indexes__`.

    Args:
        fields: names, class attributes, or these in `asc()` or `desc()`; `"$**"` for a wildcard index.
        kind: 1 or -1, or "text", "2dsphere", "hashed", for fields that name no kind.
        unique, sparse, name: as for an index of the driver.
        expire_after: seconds after the field's date at which the server deletes the document.
        partial: index only documents that match this query.
        options: any other option of `IndexModel`: collation, weights, wildcardProjection, ….

    Raises:
        TypeError: an option is misspelt.

    Example:
        >>> __indexes__ = [Index("author", desc("created_at")), Index("title", "body", kind="text")]
    """

    __slots__ = ("fields", "kind", "options", "partial")

    def __init__(
        self,
        *fields: Any,
        kind: int | str = 1,
        unique: bool = False,
        sparse: bool = False,
        expire_after: int | None = None,
        name: str | None = None,
        partial: Any = None,
        **options: Any,
    ) -> None:
        if not fields:
            raise TypeError("expected the fields of the index, got none")
        self.fields = fields
        self.kind = kind
        self.partial = partial
        self.options = _index_options(unique, sparse, expire_after, name, options)


def _index_options(
    unique: bool, sparse: bool, expire_after: int | None, name: str | None, others: Mapping[str, Any]
) -> dict[str, Any]:
    check_index_options(others)
    given = {
        "unique": True if unique else None,
        "sparse": True if sparse else None,
        "expireAfterSeconds": expire_after,
        "name": name,
    }
    return {**others, **without_none(given)}


class Vector:
    """Marks a vector field, inside `Annotated`: a list of numbers with a vector index. Its length is checked.

    Args:
        dimensions: length of the list.
        similarity: "cosine", "euclidean" or "dotProduct".
        index: name of the index, which `sync_search_indexes()` creates.
        filters: fields that can narrow a search.

    Raises:
        ValueError: the dimensions are not a positive number, or the similarity is unknown.

    Attributes:
        min_length, max_length: the dimensions, by the names of annotated-types.

    Example:
        >>> class Page(Document):
        ...     meaning: Annotated[list[float], Vector(3)]
        >>> Page(meaning=[1.0])
        Traceback (most recent call last):
        ValidationError: ...
    """

    __slots__ = ("filters", "index", "max_length", "min_length", "similarity")

    def __init__(
        self,
        dimensions: int,
        similarity: Literal["cosine", "euclidean", "dotProduct"] = "cosine",
        *,
        index: str = "vectors",
        filters: Iterable[str] = (),
    ) -> None:
        if type(dimensions) is not int or dimensions < 1:
            raise ValueError(f"expected how many numbers a vector has, from 1 on, got {dimensions!r}")
        if similarity not in ("cosine", "euclidean", "dotProduct"):
            raise ValueError(f'expected "cosine", "euclidean" or "dotProduct", got {similarity!r}')
        # All constraints are read by the names of annotated-types.
        self.min_length = self.max_length = dimensions
        self.similarity = similarity
        self.index = index
        self.filters = tuple(filters)


class Custom:
    """Defines how values of your own type are stored, inside `Annotated`.

    Args:
        load: converts a BSON value to the value; ValueError refuses it.
        dump: converts the value to a BSON value.

    Example:
        >>> colour: Annotated[Colour, Custom(Colour.parse, str)]
    """

    __slots__ = ("dump", "load")

    def __init__(self, load: Callable[[Any], Any], dump: Callable[[Any], Any]) -> None:
        self.load = load
        self.dump = dump


class Sequence:
    """Numbers documents: a field without a value gets the next number of a counter on insert.

    Use it as `number: Annotated[int | None, Sequence()] = None`. The counter is a document of the collection
    `counters`; an insert that fails leaves a gap.

    Args:
        name: name of the counter. None: collection and field.
    """

    __slots__ = ("name",)

    def __init__(self, name: str | None = None) -> None:
        self.name = name


@dataclass(slots=True)
class Inverse:
    """The inverse side of references: the class attribute of `many(by=…)`."""

    by: str
    order: Any = None
    name: str = ""
    annotation: Any = None
    owner: type[Any] | None = None
    where: tuple[Any, ...] = ()


def many(*, by: str, order: Any = None, where: Iterable[Any] = (), init: Literal[False] = False) -> Any:
    """Declare the inverse of a reference field. Nothing is stored.

    Args:
        by: the field of the other model that refers to this one: a `Ref` or `Refs`.
        order: sort order of `query()`, as for `Query.sort`.
        where: conditions that `query()` adds.
        init: for type checkers only.

    Example:
        >>> posts: Many[Post] = many(by="author", order="-created_at")
    """
    return Inverse(by, order, where=tuple(expect("where", where, Iterable, "conditions")))


@dataclass(slots=True)
class Resolved:
    """A field with its annotation evaluated."""

    info: FieldInfo
    name: str
    key: str
    type: Any
    nullable: bool
    metadata: tuple[Any, ...]
    model: type[Any] | None = None
    target: Any = None
    is_list: bool = False
    indexes: list[Indexed] = _dataclass_field(default_factory=list)
    sequence: Sequence | None = None
    is_version: bool = False
    belongs: bool = False
    encrypted: Any = None
    # Makes the field's references, once the plan is compiled.
    maker: Any = None
    # The classes that mappings in it may represent; set at first use.
    parts: list[Any] | None = None
    # Undoes `to_dict`, once the plan is compiled.
    remake: Any = None

    @property
    def is_refs(self) -> bool:
        """Whether it is a set of references, `Refs`."""
        return bool(getattr(get_origin(self.type) or self.type, "__is_refs__", False))

    @property
    def is_required(self) -> bool:
        """Whether a value must be given: no default, not a list of references, and not nullable."""
        info = self.info
        has_default = info.default_factory is not None or info.default is not MISSING or self.nullable
        return not (has_default or self.is_refs)
