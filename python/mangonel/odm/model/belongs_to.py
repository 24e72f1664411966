"""`BelongsTo`: a reference whose attribute is the document itself, fetched at first access.

Everywhere except at the attribute it is a `Ref`, for the plan, the core and every higher floor. They read instances
with `held`, so only the program's own access fetches.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, Generic, TypeVar, get_args, get_origin, overload

from mangonel import _core
from mangonel.odm.errors import NotFetched
from mangonel.odm.expressions.paths import Path
from mangonel.odm.model.refs import Ref

T = TypeVar("T")


class BelongsTo(Generic[T]):
    """A reference to one document, stored as its id; the attribute is the document.

    Reading the attribute fetches the document, together with those of all documents from the same query, in a single
    query. On an event loop nothing can wait, so the document must have been fetched with `include()` or
    `ref_of(…).aget()`; otherwise reading raises `NotFetched`. You may set a document or an id; `ref_of` returns the id.

    Example:
        >>> class Author(Document):
        ...     name: str
        >>> class Book(Document):
        ...     author: BelongsTo[Author]
        >>> Book(author=Author(name="Ada").save()).author.name
        'Ada'
    """

    if TYPE_CHECKING:

        @overload
        def __get__(self, instance: None, owner: Any) -> Any: ...
        @overload
        def __get__(self, instance: object, owner: Any) -> T: ...
        def __get__(self, instance: object, owner: Any) -> Any: ...
        def __set__(self, instance: object, value: T | Ref[T] | Any) -> None: ...


class BelongsToDescriptor:
    """The class attribute of a field `BelongsTo[…]`; it wraps the descriptor of the slot."""

    __slots__ = ("member",)

    def __init__(self, member: Any) -> None:
        self.member = member

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        if instance is None:
            # The metaclass makes a path of it, as for any field.
            return self.member
        value = self.member.__get__(instance, owner)
        return _document(value, instance) if isinstance(value, Ref) else value


def as_ref(plain: Any) -> tuple[Any, bool]:
    """Return a field's type with `Ref[…]` in place of `BelongsTo[…]`, and whether it was replaced."""
    if (get_origin(plain) or plain) is not BelongsTo:
        return plain, False
    arguments = get_args(plain)
    ref: Any = Ref
    return (ref[arguments[0]] if arguments else ref), True


def held(instance: Any, name: str) -> Any:
    """Return the value of an attribute without fetching; for a field `BelongsTo[…]`, the reference."""
    member = instance.__belongs_to__.get(name)
    return getattr(instance, name) if member is None else member.__get__(instance)


def ref_of(document: Any, field: Any) -> Ref[Any] | None:
    """Return the `Ref` behind a `BelongsTo` attribute, without fetching its document; None for None.

    Args:
        document: a document or an embedded document.
        field: the field, `BelongsTo` or `Ref`, as a path of its class or by name.

    Raises:
        AttributeError: the field does not exist.
        TypeError: the field is not a reference.

    Example:
        >>> ref_of(post, "author").id == post.author.id
        True
    """
    if not hasattr(document, "__belongs_to__"):
        raise TypeError(f'expected a document for "document", got {type(document).__name__}')
    name = str(field)
    if isinstance(field, Path):
        if not isinstance(document, field._owner):
            raise TypeError(
                f"expected a {field._owner.__name__}, which has {field!r}, got a {type(document).__name__}"
            )
        name = field._field().name
    value = held(document, name)
    if value is not None and not isinstance(value, Ref):
        raise TypeError(
            f"expected a reference in {type(document).__name__}.{name}, got {type(value).__name__}"
        )
    return value


def _document(ref: Ref[Any], instance: Any) -> Any:
    if ref.is_loaded or ref.is_missing:
        return ref.value
    # A new document that refers to one by id has no connection yet.
    origin = _core.odm_origin(instance)
    if _is_on_a_loop() or (origin is not None and origin.is_only_async):
        raise NotFetched(
            f"cannot wait for {ref!r} of a {type(instance).__name__}: on asyncio it must be fetched before it is read; "
            "use include(), or await ref_of(…).aget()"
        )
    return ref.get()


def _is_on_a_loop() -> bool:
    asyncio = sys.modules.get("asyncio")
    if asyncio is None:
        # The library was never imported, so no loop of its kind runs.
        return False
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True
