"""Lets the methods of an asyncio class be known as coroutine functions, as PyMongo Async's are.

Frameworks decide by `inspect.iscoroutinefunction` whether to await what a method returns: background tasks of
Starlette, `unittest.mock.create_autospec`, tenacity. A method here is a plain function that returns the port's
coroutine, one frame less for each call, and both faces share it; so each asyncio class gets copies that carry the flag.
Must not know: which classes and methods there are.
"""

from __future__ import annotations

from types import FunctionType

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, TypeVar

    C = TypeVar("C", bound=type[Any])

# `inspect.CO_COROUTINE`; importing inspect takes longer than the whole package. Since 3.11 a coroutine is made by the
# code's first instruction, not by this flag, which so only tells; `inspect.markcoroutinefunction` is of 3.12.
_CO_COROUTINE = 0x80


def coroutine_functions(cls: C) -> C:
    """Mark the methods of an asyncio class that return `Returns[...]`, those it inherits as well; return the class.

    Example:
        >>> inspect.iscoroutinefunction(AsyncCollection.insert_one)
        True
    """
    seen = set()
    for base in cls.__mro__:
        for name, method in list(vars(base).items()):
            if name in seen:
                continue
            seen.add(name)
            if type(method) is FunctionType and _returns_coroutine(method):
                setattr(cls, name, _coroutine_function(method))
    return cls


def _returns_coroutine(method: FunctionType) -> bool:
    # The annotation that `tools/stubs.py` reads as well.
    annotation = method.__annotations__.get("return")
    if method.__code__.co_flags & _CO_COROUTINE or method.__name__.startswith("_"):
        return False
    return isinstance(annotation, str) and annotation.startswith("Returns[")


def _coroutine_function(method: Any) -> Any:
    """Return a copy of a function that returns coroutines, which says so."""
    code = method.__code__
    copy = FunctionType(
        code.replace(co_flags=code.co_flags | _CO_COROUTINE),
        method.__globals__,
        method.__name__,
        method.__defaults__,
        method.__closure__,
    )
    copy.__kwdefaults__ = method.__kwdefaults__
    copy.__annotations__ = method.__annotations__
    copy.__doc__ = method.__doc__
    copy.__module__ = method.__module__
    copy.__qualname__ = method.__qualname__
    return copy
