"""The documents of the comparison: ten fields each, made from a number as in the programs of the other languages."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

KEYS = 10_000  # documents that are asked for by `_id`
CITIES = ("Ankara", "Berlin", "Cairo", "Delhi", "Espoo", "Fukuoka", "Genoa", "Hanoi")
EPOCH = datetime(2026, 1, 1)
NOTE = "member of the analytical society since the engine was drawn up"
BASE = 20  # documents that updates change
BUCKET = FILE_NAME = "languages"  # the file that is read


@dataclass(slots=True)
class Member:
    """A document as an object, for the typed row."""

    id: int
    name: str
    email: str
    city: str
    n: int
    age: int
    score: float
    active: bool
    created: datetime
    note: str


def member(number: int) -> dict[str, Any]:
    """Return the nine fields beside `_id`."""
    return {
        "name": f"Ada Lovelace {number:05d}",
        "email": f"ada.{number:05d}@example.org",
        "city": CITIES[number % 8],
        "n": number,
        "age": 18 + number % 70,
        "score": number + 0.5,
        "active": number % 2 == 0,
        "created": EPOCH + timedelta(minutes=number),
        "note": NOTE,
    }


class WrongAnswerError(Exception):
    """An answer is not the expected one."""


def expect(what: str, found: object, expected: object) -> None:
    """Raise WrongAnswerError unless both are equal."""
    if found != expected:
        raise WrongAnswerError(f"expected {what} {expected}, got {found}")


def plain(found: Any) -> Any:
    """Return a document as a dict."""
    if not isinstance(found, Member):
        return found
    return {"_id" if name == "id" else name: getattr(found, name) for name in Member.__slots__}
