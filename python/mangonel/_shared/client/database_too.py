"""A client method whose name may also be the name of a database. Knows neither class."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, TypeVar

    _Method = TypeVar("_Method")


class _DatabaseToo:
    """`client.name` is the database with that name, as in PyMongo; calling it calls the method."""

    def __init__(self, method: Callable[..., Any]) -> None:
        self.method = method
        self.__doc__ = method.__doc__

    def __get__(self, client: Any, owner: Any = None) -> Any:
        return self.method if client is None else client[self.method.__name__]


if TYPE_CHECKING:

    def database_too(method: _Method) -> _Method:
        """Return the method unchanged."""
        return method
else:
    database_too = _DatabaseToo


def method_of(client: Any, name: str) -> Callable[..., Any] | None:
    """Return the unbound method of the client that shares its name with a database, or None if there is none."""
    for each in type(client).__mro__:
        found = each.__dict__.get(name)
        if type(found) is _DatabaseToo:
            return found.method
    return None
