"""Marks the methods of an asyncio class as coroutine functions, as PyMongo Async's are.

Frameworks use `inspect.iscoroutinefunction` to decide whether to await a method's result: Starlette's background tasks,
`unittest.mock.create_autospec`, tenacity. A method here is a plain function that returns the port's coroutine, which
saves a frame per call, and both faces share it. So each asyncio class gets copies that carry the flag. Must not know:
the classes and methods.
"""

from __future__ import annotations

from types import FunctionType

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, TypeVar

    C = TypeVar("C", bound=type[Any])

# `inspect.CO_COROUTINE`; importing inspect takes longer than the whole package. Since 3.11 the code's first instruction
# makes the coroutine, not this flag, so the flag only informs; `inspect.markcoroutinefunction` needs 3.12.
_CO_COROUTINE = 0x80


def coroutine_functions(cls: C) -> C:
    """Mark the methods of an asyncio class that return `FaceResult[...]`, including inherited ones; return the class.

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
                copy = _coroutine_function(method)
                # Errors about wrong keywords show this name.
                copy.__qualname__ = f"{cls.__name__}.{name}"
                setattr(cls, name, copy)
    return cls


def _returns_coroutine(method: FunctionType) -> bool:
    # The annotation that `tools/stubs.py` reads too.
    annotation = method.__annotations__.get("return")
    if method.__code__.co_flags & _CO_COROUTINE or method.__name__.startswith("_"):
        return False
    return isinstance(annotation, str) and annotation.startswith("FaceResult[")


def _coroutine_function(method: Any) -> Any:
    """Return a copy of a function that returns coroutines, marked as a coroutine function."""
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
    return copy
