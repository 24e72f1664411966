"""Records the private names that a test touches; `instrument.py` inserts the calls into the tests.

Knows only names of packages: it runs on PyMongo and on this driver alike.
"""

from __future__ import annotations

import sys
from types import CodeType, ModuleType
from typing import TypeVar

T = TypeVar("T")

ROOTS = frozenset(["bson", "gridfs", "mangonel", "pymongo"])
# Helpers whose private touches the runner answers itself (`standins.py`): they say nothing about a test.
HELPERS = ("test/__init__.py", "test/asynchronous/__init__.py", "test/helpers_shared.py", "test/version.py")
# The runner of the unified specification tests, and the knobs that speed up PyMongo's monitors. `inside.py` answers
# their reads of internals for this driver, so a test that uses them is as public as its cases.
RUNNERS = tuple(
    f"{folder}/{place}"
    for folder in ("test", "asynchronous")
    for place in (
        "unified_format.py:",
        "unified_format_shared.py:",
        "utils_spec_runner.py:",
        "helpers.py:enable",
        "helpers.py:disable",
    )
)
# Names with an underscore that are not private: the standard library's, and a documented attribute of GridFS.
PUBLIC = frozenset(["_asdict", "_fields", "_id", "_make", "_replace", "_type_marker"])

# The touches of the current test or scope; the plugin replaces the set.
current: set[str] = set()


def _roots(value: object) -> bool:
    """Return whether `value` belongs to the driver: a module, a class or an instance of one."""
    if isinstance(value, ModuleType):
        return value.__name__.partition(".")[0] in ROOTS
    kind = value if isinstance(value, type) else type(value)
    if isinstance(value, super):
        kind = value.__self_class__
    if isinstance(getattr(value, "__module__", None), str) and callable(value):
        module: str = value.__module__
        if module.partition(".")[0] in ROOTS:
            return True
    return any(base.__module__.partition(".")[0] in ROOTS for base in kind.__mro__)


def counts(touch: str) -> bool:
    """Return whether a recorded touch means that a test depends on PyMongo's internals."""
    return not touch.rpartition(" in ")[2].startswith(RUNNERS)


def _note(what: str, code: CodeType) -> None:
    place = code.co_filename
    if not place.endswith(HELPERS):
        current.add(f"{what} in {'/'.join(place.split('/')[-2:])}:{code.co_name}")


def note(value: object, name: str, code: CodeType) -> None:
    """Record that `code` is about to use `value.name`."""
    if _roots(value):
        _note(f"{getattr(value, '__name__', type(value).__name__)}.{name}", code)


def attribute(value: T, name: str) -> T:
    """Record that `value.name` is about to be used; return `value`."""
    note(value, name, sys._getframe(1).f_code)
    return value


def imported(value: T, name: str) -> T:
    """Record the use of a name imported from inside PyMongo; return its value."""
    _note(name, sys._getframe(1).f_code)
    return value


def patched(target: T) -> T:
    """Record that a mock is about to replace internals of the driver; return the target."""
    code = sys._getframe(1).f_code
    if isinstance(target, str):
        if target.partition(".")[0] in ROOTS:
            _note(f"patch of {target}", code)
    elif _roots(target):
        _note(f"patch of {getattr(target, '__name__', type(target).__name__)}", code)
    return target
