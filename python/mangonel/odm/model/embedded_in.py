"""`embedded_in()`: an attribute of an embedded document that returns its containing document.

Nothing is stored, and models without one pay nothing. If a field holds embedded documents that declare one, each access
to the field sets their document.
"""

from __future__ import annotations

from typing import Any, Literal

from mangonel.odm._registry import is_embedded

# The slot of classes that declare such an attribute, and of no others.
SLOT = "__parent__"


class EmbeddedIn:
    """The class attribute of `embedded_in()`: it reads the slot, and programs cannot set it."""

    __slots__ = ("name",)

    def __init__(self) -> None:
        self.name = ""

    def __set_name__(self, owner: Any, name: str) -> None:
        self.name = name

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        if instance is None:
            return self
        try:
            return getattr(instance, SLOT)
        except AttributeError:
            kind = type(instance).__name__
            raise AttributeError(
                f"cannot tell {kind}.{self.name}: this {kind} was not read from a document yet; put it into one, and "
                "read it as that one's attribute"
            ) from None

    def __set__(self, instance: Any, value: Any) -> None:
        raise AttributeError(
            f"cannot set {type(instance).__name__}.{self.name}: put the embedded document into a document instead"
        )


def embedded_in(*, init: Literal[False] = False) -> Any:
    """Declare an attribute of an embedded document that gives its parent document. Nothing is stored.

    It is set when the embedded document is read from its document's attribute, directly or through a list, a dict or
    another embedded document, and in hooks. The last such document stays, even after the embedded one is removed.
    The annotation is for type checkers. Reading such a list costs about 0.1 µs per element.

    Args:
        init: for type checkers only.

    Raises:
        AttributeError: on reading the attribute, if no document is known yet.

    Example:
        >>> class Line(Embedded):
        ...     price: float
        ...     order: Order = embedded_in()
        >>> class Order(Document):
        ...     currency: str
        ...     lines: list[Line]
        >>> Order(currency="EUR", lines=[Line(price=2.5)]).lines[0].order.currency
        'EUR'
    """
    return EmbeddedIn()


class TellingDescriptor:
    """The class attribute of a field that holds such embedded documents; it wraps the slot's descriptor."""

    __slots__ = ("member",)

    def __init__(self, member: Any) -> None:
        self.member = member

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        if instance is None:
            # The metaclass makes a path of it, as for any field.
            return self.member
        value = self.member.__get__(instance, owner)
        _tell(value, instance)
        return value


def holds_such(spec: dict[str, Any]) -> bool:
    """Whether a described type contains embedded documents with such an attribute, at any depth."""
    argument = spec["argument"]
    match spec["op"]:
        case "embedded":
            return _knows(argument)
        case "list" | "dict" | "tuple_of":
            return holds_such(argument)
        case "tuple":
            return any(map(holds_such, argument))
        case "union":
            return any(_knows(model) for _, model in argument[1]) or any(map(holds_such, argument[2]))
    return False


def _knows(model: Any) -> bool:
    """Whether a class, or a member of its family, has the slot."""
    return is_embedded(model) and (hasattr(model, SLOT) or any(map(_knows, model.__subclasses__())))


def _tell(value: Any, document: Any) -> None:
    if isinstance(value, (list, tuple)):
        for element in value:
            _tell(element, document)
    elif isinstance(value, dict):
        for element in value.values():
            _tell(element, document)
    elif hasattr(type(value), SLOT):
        value.__parent__ = document
