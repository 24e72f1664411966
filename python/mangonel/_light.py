"""Keeps the import short: cheap aliases of common names, stand-ins for `typing`, and names that load late.

The first client of a process has a time budget, and importing `typing`, `collections`, `enum` and `re` exceeds it. A
module that the first client loads takes `Mapping`, `deque` and the like from here. It declares names that it may not
need with `late_names` (names of a module) or `LateClass` (a class attribute), which import them at first use. Type
checkers see the originals. Must not know: the rest of the package.
"""

from __future__ import annotations

import sys
from types import GenericAlias

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections import deque as deque
    from collections.abc import Callable as Callable
    from collections.abc import ItemsView as ItemsView
    from collections.abc import Iterable as Iterable
    from collections.abc import Iterator as Iterator
    from collections.abc import Mapping as Mapping
    from collections.abc import MutableMapping as MutableMapping
    from collections.abc import Sequence as Sequence
    from collections.abc import Set as Set
    from typing import Any as Any
    from typing import Generic as Generic
    from typing import Protocol as Protocol
    from typing import overload as overload

    from typing_extensions import TypeVar as TypeVar
else:
    # The native half of `collections` and the module behind `collections.abc`; both are loaded at interpreter start.
    from _collections import deque as deque
    from _collections_abc import ItemsView as ItemsView
    from _collections_abc import Iterable as Iterable
    from _collections_abc import Iterator as Iterator
    from _collections_abc import Mapping as Mapping
    from _collections_abc import MutableMapping as MutableMapping
    from _collections_abc import Sequence as Sequence
    from _collections_abc import Set as Set

    # Only aliases and base classes are evaluated; their parameters are never read.
    Any = object

    class Generic:
        """Base of a class that may be subscripted, as in `Regex[str]`."""

        __slots__ = ()
        __class_getitem__ = classmethod(GenericAlias)

    class Protocol:
        """Base of a class that only describes an interface."""

    def overload(function: object) -> object:
        """Return the function: the definition after the overloads replaces it."""
        return function

    def TypeVar(name: str, *_constraints: object, **_options: object) -> str:  # noqa: N802
        """Return a placeholder: type parameters are not used at run time here."""
        return name


def late_names(module: str, homes: dict[str, str], submodules: tuple[str, ...] = ()) -> Callable[[str], Any]:
    """Return a `__getattr__` for a module whose names are defined elsewhere and imported at first use.

    Args:
        module: the name of the module.
        homes: name -> the module that defines it.
        submodules: submodules that are also attributes of the module.
    """

    def load(name: str) -> Any:
        if name in submodules:
            return __import__(f"{module}.{name}", fromlist=[name])
        if name not in homes:
            raise AttributeError(f"module {module!r} has no attribute {name!r}")
        found = _import(homes[name], name)
        # The next access finds the attribute without calling this.
        setattr(sys.modules[module], name, found)
        return found

    return load


def _import(home: str, name: str) -> Any:
    return getattr(__import__(home, fromlist=[name]), name)


if TYPE_CHECKING:
    # The first access replaces the class attribute by its class.
    LateClass: Any
else:

    class LateClass:
        """A class attribute that stands for a class of another module and imports it at first use.

        Args:
            home: the module that defines it.
            name: its name there.
        """

        __slots__ = ("_home", "_name", "_owner", "_place")

        def __init__(self, home: str, name: str) -> None:
            self._home, self._name = home, name

        def __set_name__(self, owner: type, place: str) -> None:
            self._owner, self._place = owner, place

        def __get__(self, _instance: object, _owner: type | None = None) -> Any:
            found = _import(self._home, self._name)
            setattr(self._owner, self._place, found)
            return found
