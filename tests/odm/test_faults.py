"""An invalid document's error lists every fault, each with its whole path."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any

import pytest
from annotated_types import Ge

from mangonel.odm import Custom, Document, Embedded, Refs, ValidationError, field


class Spot(Embedded):
    city: str
    zip: int = 0


class Trip(Embedded):
    start: Spot
    stops: list[Spot] = field(default_factory=list)
    named: dict[str, Spot] = field(default_factory=dict)


def refuse(value: Any) -> Any:
    raise KeyError(value)


class Guest(Document):
    name: str
    age: Annotated[int, Ge(0)] = 0
    mail: str
    trip: Trip | None = None
    trips: list[Trip] = field(default_factory=list)
    friends: Refs[Guest]
    odd: Annotated[str, Custom(str, refuse)] = ""


def faults(make: Callable[[], Any]) -> dict[str, str]:
    """Return the faults, by path."""
    with pytest.raises(ValidationError) as caught:
        make()
    found = {fault["path"]: fault["message"] for fault in caught.value.errors()}
    assert all(path in str(caught.value) and text in str(caught.value) for path, text in found.items())
    return found


NONE = "expected a value, got none"


def test_a_constructor_names_each_wrong_and_each_missing_value() -> None:
    assert faults(lambda: Guest(name=3, age=-1)) == {
        "$.name": "expected str, got int",
        "$.age": "expected >= 0, got -1",
        "$.mail": NONE,
    }
    assert faults(lambda: Guest(name=3, mail="a")) == {"$.name": "expected str, got int"}


def test_a_call_without_values_is_python_s_own_error() -> None:
    with pytest.raises(TypeError, match="expected name, mail to make a Guest, got no value for it"):
        Guest(age=1)
    with pytest.raises(TypeError, match="expected a field of Guest, got 'nme'"):
        Guest(nme="a", age="x")


def test_a_dict_names_faults_of_all_parts_by_their_whole_paths() -> None:
    values = {
        "name": 3,
        "trip": {"start": {"zip": "x"}, "named": {"a": {"city": 1}}},
        "trips": [
            {"start": {"city": "Oslo"}},
            {"start": {"city": "Oslo"}, "stops": [{"city": "Rom"}, {"city": 2, "zip": 1}, {}]},
        ],
    }
    assert faults(lambda: Guest.from_dict(values)) == {
        "$.name": "expected str, got int",
        "$.mail": NONE,
        "$.trip.start.zip": "expected int, got str",
        "$.trip.start.city": NONE,
        "$.trip.named.a.city": "expected str, got int",
        "$.trips[1].stops[1].city": "expected str, got int",
        "$.trips[1].stops[2].city": NONE,
    }
    assert faults(lambda: Guest.from_dict({})) == {"$.name": NONE, "$.mail": NONE}
    assert faults(lambda: Guest.from_dict({"name": "a", "mail": "b", "trip": 7})) == {
        "$.trip": "expected Trip or None, got int"
    }


def test_a_fault_has_one_path_and_its_text_begins_the_message() -> None:
    with pytest.raises(ValidationError) as caught:
        Guest(name=3, age="x", mail=None)
    first, *others = caught.value.faults or ()
    assert str(caught.value) == f"{first}; also {'; '.join(others)}"
    assert len(others) == 2
