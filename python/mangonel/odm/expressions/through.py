"""Paths that lead through references to fields of other documents: `Post.author.name`, `User.posts.title`.

Conditions and orders on them need the other documents, so they carry the paths that a query joins by.
"""

from __future__ import annotations

from typing import Any

from mangonel.odm._registry import is_document_class
from mangonel.odm.errors import UnsupportedOption
from mangonel.odm.expressions.changes import Update
from mangonel.odm.expressions.expr import Expr, JoinedExpr
from mangonel.odm.expressions.matching import Matching, _named
from mangonel.odm.expressions.orders import Order
from mangonel.odm.expressions.paths import Path


class ManyPath:
    """The class attribute of an inverse, such as `User.posts`; its attributes are fields of the other model.

    Args:
        descriptor: the class attribute that `many()` made.
        owner: the model that has it.
        before: the path of the reference that leads to `owner`; None: the path begins here.
    """

    __slots__ = ("_before", "_descriptor", "_owner")

    def __init__(self, descriptor: Any, owner: Any, before: Any = None) -> None:
        self._descriptor = descriptor
        self._owner = owner
        self._before = before

    @property
    def _target(self) -> Any:
        return self._descriptor.target

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return hop(self, self._target, name)

    def __repr__(self) -> str:
        name = self._descriptor.inverse.name
        return f"{self._owner.__name__}.{name}" if self._before is None else f"{self._before!r}.{name}"


class Through(Path[Any]):
    """A field of a document that a reference leads to. It is part of conditions, orders and `include()` only."""

    __slots__ = ("_before",)

    def __init__(self, model: Any, name: str, before: Any) -> None:
        super().__init__(model, name)
        self._before: Any = before

    def _arguments(self) -> tuple[Any, ...]:
        return self._model, self._name, self._before

    def _within(self, owner: Any, name: str, keys: tuple[str, ...]) -> Through:
        made = Through(self._model, name, self._before)
        made._owner = owner
        made._keys = keys
        return made

    def _local(self) -> Path[Any]:
        """Return the path as the other model has it."""
        if self._keys is None:
            return self._model.__expressions__[self._name]
        return Path._within(self, self._owner, self._name, self._keys)

    def _joined(self) -> Path[Any]:
        """Return the path in a document that the other documents were joined to."""
        local = self._local()
        local._field()
        return Path._within(self, local._owner, local._name, (alias_of(self._before), *(local._keys or ())))

    @property
    def _key(self) -> str:
        raise UnsupportedOption(
            f"{self!r} leads through a reference: find(), sort(), include() and lookup() of a query can honour it"
        )

    def _condition(self) -> dict[str, Any]:
        raise UnsupportedOption(
            f"{self!r} leads through a reference: write a comparison, such as {self!r} == True"
        )

    def __hash__(self) -> int:
        return hash((self._before, self._owner, self._name, self._keys))

    def __repr__(self) -> str:
        return f"{self._before!r}.{self._local()._key}"


def _joining(name: str, method: Any) -> Any:
    """Return a method of paths that adds the joins to its condition, and refuses updates."""

    def joined(self: Through, *args: Any, **kwargs: Any) -> Any:
        made = method(self._joined(), *args, **kwargs)
        if isinstance(made, Expr):
            return JoinedExpr(made.query, (self,))
        if isinstance(made, Update):
            raise UnsupportedOption(
                f"{name}() cannot change {self!r}: it is in a document of another collection; update that one"
            )
        return made

    joined.__name__, joined.__doc__ = name, method.__doc__
    return joined


_COMPARED = ("__eq__", "__ne__", "__lt__", "__le__", "__gt__", "__ge__", "__invert__")

for _name in _COMPARED:
    setattr(Through, _name, _joining(_name, getattr(Path, _name)))
for _name, _member in (*vars(Matching).items(), *vars(Path).items()):
    if not _name.startswith("_") and callable(getattr(_member, "member", None)):
        _made: Any = _named(_joining(_name, _member.member))
        _made.name = _name
        setattr(Through, _name, _made)


def hop(before: Any, target: Any, name: str) -> Any:
    """Return the path of a field or inverse of the model at the end of a path.

    Raises:
        AttributeError: the model has neither.
    """
    for model in dict.fromkeys((target, *target.__tagged__())):
        if name in model.__plan__.fields:
            made = Through(target, name, before)
            made._owner = model
            return made
        if name in model.__inverses__:
            return ManyPath(model.__inverses__[name], model, before)
    known = ", ".join(target.__plan__.fields)
    raise AttributeError(f"{target.__name__} has no field {name!r}; it has {known or 'none'}")


Path._hop = staticmethod(hop)


def target_of(link: Any) -> Any:
    """Return the model that a path's last field references, or None if it is no reference."""
    if isinstance(link, ManyPath):
        return link._target
    target = link._field().target
    return target if is_document_class(target) else None


def links_of(path: Any) -> list[Any]:
    """Return the fields that a path leads through, itself last."""
    found = [path]
    while getattr(found[0], "_before", None) is not None:
        found.insert(0, found[0]._before)
    return found


def alias_of(link: Any) -> str:
    """Return the key under which a query joins the documents that a reference leads to."""
    return "__" + ":".join(_trail(step) for step in links_of(link))


def _trail(link: Any) -> str:
    if isinstance(link, ManyPath):
        return str(link._descriptor.inverse.name)
    local = link._local() if isinstance(link, Through) else link
    return str(local._key).replace(".", ":")


def field_of(order: Any) -> Any:
    """Return the field in an argument of `sort()`; a name is returned unchanged."""
    if isinstance(order, tuple):
        order = order[0]
    return order.field if isinstance(order, Order) else order


def joined_order(order: Any) -> Any:
    """Return one argument of `sort()` with the key that a path through references has in joined documents."""
    if not isinstance(field_of(order), Through):
        return order
    direction: Any = 1
    if isinstance(order, tuple):
        order, direction = order
    if isinstance(order, Order):
        order, direction = order.field, order.direction
    return {order._joined()._key: direction}
