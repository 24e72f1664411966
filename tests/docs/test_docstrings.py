"""Every public name documents its promise, its arguments, its errors, and an example."""

from __future__ import annotations

import pytest

from docs.docstrings import RULES, Thing, all_owed, listed, owed, things


def test_docstring_gives_what_it_owes():
    known = listed()
    more = {
        name: broken
        for name, rules in all_owed().items()
        if (broken := [rule for rule in rules if rule not in known.get(name, ())])
    }

    assert more == {}


def test_what_is_fulfilled_is_taken_off_the_list():
    """`python tests/docs/docstrings.py` writes the list again."""
    found = all_owed()

    assert {name: rules for name, rules in listed().items() if found.get(name) != rules} == {}
    assert list(listed()) == sorted(listed())


def test_the_reference_is_whole():
    names = things()

    assert len(names) > 1300
    assert "mangonel.api.Collection.find_one" in names
    assert {rule for rules in listed().values() for rule in rules} <= set(RULES)


def bare(first, second):
    return first, second


def told(first, second):
    """Return both.

    Args:
        first: one of them.
        second: the other.

    Raises:
        ValueError: never.

    Example:
        >>> told(1, 2)
    """


async def asking(question):
    """Ask.

    Example:
        >>> await asking("when?")
    """


@pytest.mark.parametrize(
    ("function", "broken"),
    [(bare, ["docstring"]), (told, []), (asking, ["errors"])],
    ids=["bare", "told", "asking"],
)
def test_rules_notice_what_is_missing(function, broken):
    assert owed(Thing(function.__name__, function, "function")) == broken
