"""Terminals: methods that reach the server, each defined once for both faces.

A terminal is written as the blocking method that programs see, under `@terminal`. If its body depends on the face, it
reads `IS_ASYNC`. When the class is created, each terminal gets a twin whose name begins with `a`: a function with the
same code, in which `IS_ASYNC` is true. `tools/twins.py` writes both signatures for type checkers.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from types import CodeType, FunctionType
from typing import Any, TypeVar

F = TypeVar("F", bound=Callable[..., Any])

IS_ASYNC: bool = False
"""Whether the asyncio face called; read in terminals only."""

# Types that the asyncio face returns at once, since there is nothing to wait for yet.
AT_ONCE = {"Iterator": "AsyncIterator", "Collection": "AsyncCollection", "MongoClient": "AsyncMongoClient"}


def terminal(method: F) -> F:
    """Mark a method of a class with `Twins` as a terminal; place it below `@classmethod` and `@property`.

    Example:
        >>> class QueryReads(QueryBuilder[T], QueryReadsTwins[T]):
        ...     @terminal
        ...     def first(self) -> T | None:
        ...         return self._single(IS_ASYNC, "first")
    """
    method.__is_terminal__ = True  # type: ignore[attr-defined]
    return method


class Twins:
    """Gives its subclasses the asyncio twins of their terminals; `_twins.pyi` has their types.

    Raises:
        TypeError: a terminal does not read `IS_ASYNC`, so its twin would block.
    """

    __slots__ = ()

    def __class_getitem__(cls, item: Any) -> type[Twins]:
        return cls

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        for name, member in list(vars(cls).items()):
            kind: Any = type(member)
            method = member.fget if kind is property else getattr(member, "__func__", member)
            if getattr(method, "__is_terminal__", False):
                made = _twin_of(method)
                setattr(cls, f"a{name}", made if kind is FunctionType else kind(made))


def _twin_of(method: FunctionType) -> FunctionType:
    name = f"a{method.__name__}"
    code = _on_asyncio(method.__code__)
    if code == method.__code__:
        raise TypeError(f"expected {method.__qualname__} to read IS_ASYNC, got a terminal for one face")
    qualname = f"{method.__qualname__.removesuffix(method.__name__)}{name}"
    code = code.replace(co_name=name, co_qualname=qualname)
    twin = FunctionType(code, method.__globals__, name, method.__defaults__, method.__closure__)
    twin.__kwdefaults__ = method.__kwdefaults__
    twin.__module__, twin.__qualname__ = method.__module__, qualname
    twin.__doc__ = f"As `{method.__name__}`, on asyncio."
    returns = on_asyncio(method.__annotations__["return"])
    twin.__annotations__ = {**method.__annotations__, "return": returns}
    return twin


def _on_asyncio(code: CodeType) -> CodeType:
    """Return the code in which the global `IS_ASYNC` is the builtin `True`."""
    return code.replace(
        co_names=tuple("True" if name == "IS_ASYNC" else name for name in code.co_names),
        co_consts=tuple(_on_asyncio(part) if isinstance(part, CodeType) else part for part in code.co_consts),
    )


def on_asyncio(returned: str) -> str:
    """Return the annotation of a twin's result.

    Args:
        returned: the annotation of its terminal's result, as text.

    Example:
        >>> on_asyncio("list[T]")
        'Coroutine[Any, Any, list[T]]'
    """
    outer = re.split(r"\W", returned, maxsplit=1)[0]
    if outer in AT_ONCE:
        return AT_ONCE[outer] + returned.removeprefix(outer)
    return f"Coroutine[Any, Any, {returned}]"
