"""`BelongsTo`: a reference whose attribute is the document itself, fetched when it is first read.

Everywhere but at the attribute it is a `Ref`: the plan, the core and every floor above see one. What they read of an
instance they read with `held`, so nothing but the program's own reading fetches.
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
    """A reference to one document, stored as its id, whose attribute is the document.

    Reading the attribute fetches the document, and those of all documents that came with this one, by a single query.
    Nothing waits on an event loop: there the document must have been fetched by `include()` or `ref_of(…).aget()`, or
    else reading raises `NotFetched`. A document or an id may be set; `ref_of` gives the id.

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
    """What stands in a class where a field `BelongsTo[…]` was declared, around the descriptor of its slot."""

    __slots__ = ("member",)

    def __init__(self, member: Any) -> None:
        self.member = member

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        if instance is None:
            # The metaclass makes a path of it, as of any field.
            return self.member
        value = self.member.__get__(instance, owner)
        return _document(value, instance) if isinstance(value, Ref) else value


def as_ref(plain: Any) -> tuple[Any, bool]:
    """Return a field's type, `Ref[…]` in place of `BelongsTo[…]`, and whether it was that."""
    if (get_origin(plain) or plain) is not BelongsTo:
        return plain, False
    arguments = get_args(plain)
    ref: Any = Ref
    return (ref[arguments[0]] if arguments else ref), True


def held(instance: Any, name: str) -> Any:
    """Return the value of an attribute without fetching: of a field `BelongsTo[…]`, the reference."""
    member = instance.__belongs_to__.get(name)
    return getattr(instance, name) if member is None else member.__get__(instance)


def ref_of(document: Any, field: Any) -> Ref[Any] | None:
    """Return the `Ref` behind a `BelongsTo` attribute, without fetching its document; None for None.

    Args:
        document: a document or an embedded document.
        field: the field, `BelongsTo` or `Ref`, as a path of its class or by name.

    Raises:
        AttributeError: there is no such field.
        TypeError: the field holds no reference.

    Example:
        >>> ref_of(post, "author").id == post.author.id
        True
    """
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
    if ref.is_loaded:
        return ref.value
    # A document that is only made here, and refers to one by its id, came from nowhere yet.
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
        # It was never imported, so no loop of its kind runs.
        return False
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True
