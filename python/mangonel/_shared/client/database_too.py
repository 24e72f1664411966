"""A method of the client whose name a program may have given to a database. Knows neither class."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, TypeVar

    _Method = TypeVar("_Method")


class _DatabaseToo:
    """`client.name` is the database of that name, as in PyMongo; calling it calls the method."""

    def __init__(self, method: Callable[..., Any]) -> None:
        self.method = method
        self.__doc__ = method.__doc__

    def __get__(self, client: Any, owner: Any = None) -> Any:
        return self.method if client is None else client[self.method.__name__]


if TYPE_CHECKING:

    def database_too(method: _Method) -> _Method:
        """Return the method as it is."""
        return method
else:
    database_too = _DatabaseToo


def method_of(client: Any, name: str) -> Callable[..., Any] | None:
    """Return the client's method that shares its name with a database, to be called with the client; None for none."""
    for each in type(client).__mro__:
        found = each.__dict__.get(name)
        if type(found) is _DatabaseToo:
            return found.method
    return None
