"""Pages: by keys, with a token that says where the next one begins, and by number, with totals."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from mangonel import bson

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Page(Generic[T]):
    """One page by keys.

    Attributes:
        items: the documents.
        next: the token of the page behind it, or None for the last.
    """

    items: list[T]
    next: str | None

    def __iter__(self) -> Iterator[T]:
        return iter(self.items)

    def __len__(self) -> int:
        return len(self.items)


@dataclass(frozen=True, slots=True)
class Pages(Generic[T]):
    """One page by number.

    Attributes:
        items: the documents.
        number: the page, from 1.
        size: documents of a full page.
        total: documents in all.
    """

    items: list[T]
    number: int
    size: int
    total: int

    @property
    def count(self) -> int:
        """How many pages there are."""
        return -(-self.total // self.size)

    @property
    def has_next(self) -> bool:
        """Whether there is a page behind this one."""
        return self.number < self.count

    def __iter__(self) -> Iterator[T]:
        return iter(self.items)

    def __len__(self) -> int:
        return len(self.items)


async def page_flow(query: Any, collection: Any, size: int, after: str | None) -> Page[Any]:
    """Fetch one page by keys."""
    if size < 1:
        raise ValueError(f"expected a page size from 1 on, found {size}")
    sort: dict[str, Any] = dict(query._options.get("sort") or {})
    # Equal values need an order of their own, or documents would be lost between pages.
    sort.setdefault("_id", next(iter(sort.values()), 1))
    mark = _mark(query, sort)
    wanted = query._with(sort=sort, limit=size + 1, skip=None)
    if after is not None:
        wanted = wanted.find(_behind(sort, _values(after, mark)))
    documents = await wanted._all_flow(collection)
    if len(documents) <= size:
        return Page(documents, None)
    documents = documents[:size]
    return Page(documents, _token(documents[-1], sort, mark))


def _mark(query: Any, sort: dict[str, Any]) -> bytes:
    """What ties a token to its query, so that another query's is refused."""
    return hashlib.blake2b(repr((query._model.__name__, sort)).encode(), digest_size=6).digest()


def _token(document: Any, sort: dict[str, Any], mark: bytes) -> str:
    values = document.to_bson()
    found: list[Any] = []
    for key in sort:
        value: Any = values
        for part in key.split("."):
            value = value.get(part) if hasattr(value, "get") else None
        found.append(value)
    return base64.urlsafe_b64encode(mark + bson.encode({"v": found})).decode().rstrip("=")


def _values(token: str, mark: bytes) -> list[Any]:
    try:
        data = base64.urlsafe_b64decode(token + "=" * (-len(token) % 4))
        if data[:6] != mark:
            raise ValueError
        values: list[Any] = bson.decode(data[6:])["v"]
    except Exception:
        raise ValueError("expected the token of a page of this query, with the same order") from None
    return values


def _behind(sort: dict[str, Any], values: list[Any]) -> dict[str, Any]:
    """The condition for what comes after these values: larger in the first key, or equal and larger in the next."""
    alternatives: list[dict[str, Any]] = []
    equal: dict[str, Any] = {}
    for (key, direction), value in zip(sort.items(), values, strict=True):
        if direction == 1:
            # None sorts before everything else; comparisons see values of the same type only.
            beyond: Any = {"$gt": value} if value is not None else {"$ne": None}
            alternatives.append({**equal, key: beyond})
        elif value is not None:
            alternatives.append({**equal, "$or": [{key: {"$lt": value}}, {key: None}]})
        equal[key] = value
    return {"$or": alternatives}
