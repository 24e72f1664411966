"""Every public member of Motor's classes, plain or awaited, is the same here: a table made from Motor itself."""

from __future__ import annotations

import inspect
from collections.abc import Iterator

import pytest

core = pytest.importorskip("motor.core")
motor_gridfs = pytest.importorskip("motor.motor_gridfs")
metaprogramming = pytest.importorskip("motor.metaprogramming")

from mangonel.compat import _motor, _motor_cursors  # noqa: E402

CLASSES = [
    "AgnosticClient",
    "AgnosticClientSession",
    "AgnosticDatabase",
    "AgnosticCollection",
    "AgnosticCursor",
    "AgnosticCommandCursor",
    "AgnosticRawBatchCursor",
    "AgnosticRawBatchCommandCursor",
    "AgnosticChangeStream",
    "AgnosticGridOutCursor",
    "AgnosticGridOut",
    "AgnosticGridIn",
    "AgnosticGridFSBucket",
]
# docs/compatibility.md names each of these.
WITHOUT_COUNTERPART = {"wrap"}
# Plain functions that return a future, as Motor's do.
FUTURES = {"to_list"}


def kind_in_motor(cls: type, name: str) -> str:
    member = inspect.getattr_static(cls, name)
    if name == "close" and cls.__name__ == "AgnosticGridOut":
        # A property that hands out PyMongo's own method.
        return "plain"
    if (
        isinstance(member, metaprogramming.Async)
        or getattr(member, "coroutine_annotation", False)
        or inspect.iscoroutinefunction(member)
    ):
        return "awaited"
    is_chained = isinstance(
        member, metaprogramming.DelegateMethod | metaprogramming.MotorCursorChainingMethod
    )
    if isinstance(member, property | metaprogramming.ReadOnlyProperty) and not is_chained:
        return "property"
    return "plain"


def kind_here(cls: type, name: str) -> str:
    member = inspect.getattr_static(cls, name)
    if name in FUTURES or inspect.iscoroutinefunction(member):
        return "awaited"
    return "plain" if callable(member) else "property"


def members() -> Iterator[tuple[str, str]]:
    for name in CLASSES:
        cls = getattr(core, name, None) or getattr(motor_gridfs, name)
        for member in dir(cls):
            if not member.startswith("_") and member not in WITHOUT_COUNTERPART:
                yield name, member


@pytest.mark.parametrize(("name", "member"), [*members()])
def test_a_member_is_plain_or_awaited_as_motors(name: str, member: str) -> None:
    peer = getattr(core, name, None) or getattr(motor_gridfs, name)
    own = getattr(_motor, name, None) or getattr(_motor_cursors, name)

    assert kind_here(own, member) == kind_in_motor(peer, member)
