"""64-bit ints are ordinary ints to the garbage collector, which does not track them. Subclasses are as usual."""

from __future__ import annotations

import gc
import sys
import weakref
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from mangonel.bson import Int64, decode, encode

HAVE_GC = 1 << 14


class Named(Int64):
    def __init__(self, _value: int) -> None:
        self.kept: list[Any] = []


class Held:
    pass


def test_the_collector_looks_at_no_document_of_theirs() -> None:
    found = decode(encode({"small": Int64(5), "large": 2**60, "negative": Int64(-(2**63))}))
    assert [type(value) for value in found.values()] == [Int64, Int64, Int64]
    # From 3.14 on the collector tracks every dict.
    assert gc.is_tracked(found) == gc.is_tracked({})
    assert not Int64.__flags__ & HAVE_GC


@given(st.integers(-(2**63), 2**63 - 1))
def test_every_value_comes_back_and_behaves_as_an_int(value: int) -> None:
    found = decode(encode({"n": Int64(value)}))["n"]
    assert type(found) is Int64
    assert (found, hash(found), repr(found), found + 1, -found) == (
        value,
        hash(value),
        repr(value),
        value + 1,
        -value,
    )
    assert sys.getsizeof(found) <= sys.getsizeof(2**62) + 4


def test_instances_hold_their_class_only_while_they_live() -> None:
    # Cycles left by other tests may hold some.
    gc.collect()
    before = sys.getrefcount(Int64)
    data = encode({"n": Int64(7)})
    alive = [decode(data)["n"] for _ in range(1000)] + [Int64(number) for number in range(1000)]
    assert sys.getrefcount(Int64) >= before + 2000
    del alive
    assert sys.getrefcount(Int64) == before


def test_instances_of_a_subclass_with_attributes_are_collected() -> None:
    named = Named(3)
    held = Held()
    gone = weakref.ref(held)
    named.kept += [named, held]
    assert encode({"n": named}) == encode({"n": Int64(3)})
    del named, held
    gc.collect()
    assert gone() is None
