"""`blocking_method`: turns a class's flow into a method that returns its value, without a frame of its own."""

from __future__ import annotations

import gc
import inspect
import weakref
from collections.abc import Generator

import pytest

from mangonel._core import blocking_method
from mangonel.errors import BugError
from tools.frames import entered


class Pending:
    def __await__(self) -> Generator[None, None, None]:
        yield


class Till:
    def __init__(self, total: int) -> None:
        self.total = total

    async def _add_flow(self, amount: int, times: int = 1) -> int:
        """Add an amount."""
        if amount < 0:
            raise ValueError("expected an amount above zero")
        self.total += amount * times
        return self.total

    async def _wait_flow(self) -> None:
        await Pending()

    add = blocking_method(_add_flow)
    wait = blocking_method(_wait_flow)


def test_a_method_takes_the_flow_s_arguments_and_returns_its_value_or_raises_its_error() -> None:
    till = Till(1)
    assert till.add(2) == 3
    assert till.add(2, times=3) == 9
    assert Till.add(till, amount=1) == 10
    with pytest.raises(ValueError, match="above zero"):
        till.add(-1)
    with pytest.raises(TypeError, match="amount"):
        till.add()  # type: ignore[call-arg]
    assert till.total == 10


def test_a_flow_that_waits_is_a_fault_of_the_flow() -> None:
    with pytest.raises(BugError, match="got it suspended"):
        Till(0).wait()


def test_only_the_flow_enters_a_frame_and_its_signature_is_the_method_s() -> None:
    till = Till(0)
    assert entered(lambda: till.add(1)) == ["Till._add_flow"]
    assert list(inspect.signature(Till.add).parameters) == ["self", "amount", "times"]


def test_a_class_with_such_a_method_is_collected() -> None:
    class Short:
        async def flow(self) -> str:
            return super().__repr__()  # which refers to the class

        method = blocking_method(flow)

    gone = weakref.ref(Short)
    assert "Short" in Short().method()
    del Short
    gc.collect()
    assert gone() is None
