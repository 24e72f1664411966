"""Every public name says what it promises, and what each of its arguments is."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterator

import pytest

import mangonel
from mangonel import api
from mangonel.bson import raw_bson

EXEMPT = {"self", "cls"}
# With "the arguments of `find`" these are said, too.
PASSED_ON = {"args", "kwargs"}


def public_classes() -> Iterator[type]:
    for name, value in vars(api).items():
        if inspect.isclass(value) and value.__module__ == api.__name__ and name[0] != "_":
            yield value
    for name in mangonel.__all__:
        value = getattr(mangonel, name)
        if inspect.isclass(value):
            yield value
    yield raw_bson.RawBSONDocument


def members() -> dict[str, object]:
    """Every public class, and its public methods and properties, by name."""
    found: dict[str, object] = {}
    for owner in public_classes():
        if not owner.__module__.startswith("mangonel"):
            continue
        found[owner.__name__] = owner
        for cls in owner.__mro__:
            if not cls.__module__.startswith("mangonel"):
                continue
            for name, value in vars(cls).items():
                if name.startswith("_"):
                    continue
                if isinstance(value, property):
                    value = value.fget
                elif isinstance(value, classmethod | staticmethod):
                    value = value.__func__
                if inspect.isfunction(value):
                    found.setdefault(f"{owner.__name__}.{name}", value)
    return found


MEMBERS = members()


def arguments(function: Callable[..., object]) -> list[str]:
    """Return the names of what a caller gives; of a single one, the promise itself may speak."""
    names = [name for name in inspect.signature(function).parameters if name not in EXEMPT]
    return names if len(names) > 1 else []


def named_in(documentation: str) -> set[str]:
    """Return the names that a docstring explains: entries of `Args:`, and names in backticks."""
    _, _, section = documentation.partition("\nArgs:\n")
    entries = re.findall(r"^ {4}([\w*][\w*, ]*):", section.split("\n\n")[0], re.MULTILINE)
    names = {name.strip("* ") for entry in entries for name in entry.split(",")}
    return names | set(re.findall(r"`([\w.]+)`", documentation))


@pytest.mark.parametrize("name", MEMBERS)
def test_public_name_begins_with_one_line_that_says_what_it_promises(name: str) -> None:
    documentation = inspect.cleandoc(getattr(MEMBERS[name], "__doc__", None) or "")
    first, _, rest = documentation.partition("\n")

    assert first, "has no docstring"
    assert first[0].isupper() or first[0] in "`_", first
    assert not rest or rest.startswith("\n") or "." in first or first[-1].isalnum() or first[-1] in ",;:`", (
        first
    )


@pytest.mark.parametrize("name", [name for name, value in MEMBERS.items() if inspect.isfunction(value)])
def test_docstring_explains_every_argument(name: str) -> None:
    function = MEMBERS[name]
    assert inspect.isfunction(function)
    explained = named_in(inspect.cleandoc(function.__doc__ or ""))
    # Another method of the class that takes the same.
    for other in set(explained):
        twin = MEMBERS.get(f"{name.split('.')[0]}.{other}") or MEMBERS.get(other)
        if twin is not None and twin is not function:
            explained |= named_in(inspect.cleandoc(twin.__doc__ or "")) | PASSED_ON

    assert [argument for argument in arguments(function) if argument not in explained] == []
