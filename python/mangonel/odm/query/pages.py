"""Pages: by key, with tokens for the next and previous page, and by number, with totals."""

from __future__ import annotations

import base64
import hashlib
import hmac
import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from mangonel import bson
from mangonel._arguments import expect
from mangonel.odm.model.codec import TOLERANT
from mangonel.odm.query.request import split, unsupported

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Page(Generic[T]):
    """A page of results, found by the keys of its neighbour.

    Attributes:
        items: the documents.
        next: token of the next page, or None on the last.
        previous: token of the previous page, or None on the first.
    """

    items: list[T]
    next: str | None
    previous: str | None = None

    def __iter__(self) -> Iterator[T]:
        return iter(self.items)

    def __len__(self) -> int:
        return len(self.items)


@dataclass(frozen=True, slots=True)
class Pages(Generic[T]):
    """A page of results, found by its number.

    Attributes:
        items: the documents.
        number: number of the page, from 1.
        size: number of documents on a full page.
        total: number of documents in total.
    """

    items: list[T]
    number: int
    size: int
    total: int

    @property
    def count(self) -> int:
        """The number of pages."""
        return -(-self.total // self.size)

    @property
    def has_next(self) -> bool:
        """Whether another page follows."""
        return self.number < self.count

    def __iter__(self) -> Iterator[T]:
        return iter(self.items)

    def __len__(self) -> int:
        return len(self.items)


async def page_flow(
    query: Any, request: Any, size: int, after: str | None, before: str | None = None
) -> Page[Any]:
    """Fetch one page by key; backwards, if it is the one `before` another."""
    if expect("size", size, int, "an int") < 1:
        raise ValueError(f"expected a page size from 1 on, got {size}")
    if after is not None and before is not None:
        raise ValueError("expected after= or before=, got both")
    if query._is_none:
        return Page([], None)
    sort: dict[str, Any] = dict(query._options.get("sort") or {})
    if any(direction not in (1, -1) for direction in sort.values()):
        raise unsupported("page", "sort")
    # Equal values need a tie-breaker, or documents would be lost between pages.
    sort.setdefault("_id", next(iter(sort.values()), 1))
    signer = _Signer(request.connection.clients.page_key, (query._model.__name__, sort))
    token = before if after is None else after
    values = None if token is None else signer.values(token, len(sort))
    if before is not None:
        sort = {key: -direction for key, direction in sort.items()}
    documents: list[Any] = []
    # The token of the first fetched document; and whether more documents follow in the order of fetching.
    first: str | None = None
    has_more = False
    while True:
        # With `on_invalid`, documents that do not fit are no part of the page.
        left = size - len(documents)
        wanted = query._with(sort=sort, limit=left + 1, projection=_with_keys(query, sort))
        if values is not None:
            wanted = wanted.find(_behind(sort, values))
        asked = request.of(wanted, "all")
        keywords = {**asked.keywords, "limit": left + 1}
        cursor = request.collection.find(asked.filter, **keywords)
        found: list[bytes] = []
        while await cursor._fetch_flow():
            found += split(cursor._batch.raw())
            cursor._batch = None
        documents += await query._decoded_flow(request, found[:left])
        if found and first is None and token is not None:
            first = signer.token(_sort_values(found[0], sort))
        has_more = len(found) > left
        if not has_more:
            break
        values = _sort_values(found[left - 1], sort)
        if len(documents) == size:
            break
    last = signer.token(values) if has_more and values is not None else None
    return Page(documents, last, first) if before is None else Page(documents[::-1], first, last)


def _with_keys(query: Any, sort: dict[str, Any]) -> dict[str, Any] | None:
    """Return the query's projection, with the keys that locate the next page."""
    given = query._options.get("projection")
    if not given:
        return None
    is_list = 1 in given.values()
    projection = dict(given)
    for key in sort:
        if is_list:
            parts = key.split(".")
            if any(".".join(parts[:end]) in projection for end in range(1, len(parts) + 1)):
                continue
            # The server accepts no path together with a prefix of it.
            projection = {name: 1 for name in projection if not name.startswith(key + ".")}
            projection[key] = 1
        else:
            projection = {
                name: 0 for name in projection if name != key and not f"{key}.".startswith(f"{name}.")
            }
    return projection or None


class _Signer:
    """Makes and checks page tokens, which are valid for queries of the same model and order only.

    A token contains values of a document, which its holder may not see. So they are masked with a stream derived from
    the key and the signature.
    """

    def __init__(self, key: bytes, purpose: Any) -> None:
        self._key = key
        self._purpose = repr(purpose).encode()

    def _signature(self, data: bytes) -> bytes:
        return hmac.digest(self._key, self._purpose + data, "sha256")[:16]

    def _masked(self, signature: bytes, data: bytes) -> bytes:
        """Return data masked, or masked data unmasked."""
        key = hmac.digest(self._key, b"mask" + signature, "sha256")
        stream = hashlib.shake_256(key).digest(len(data))
        return bytes(one ^ other for one, other in zip(data, stream, strict=True))

    def token(self, values: list[Any]) -> str:
        """Return the token for values."""
        data = bson.encode({"v": values})
        signature = self._signature(data)
        return base64.urlsafe_b64encode(signature + self._masked(signature, data)).decode().rstrip("=")

    def values(self, token: str, count: int) -> list[Any]:
        """Return the values of a token.

        Raises:
            ValueError: the token is not valid for this query.
        """
        try:
            raw = base64.urlsafe_b64decode(token + "=" * (-len(token) % 4))
            data = self._masked(raw[:16], raw[16:])
            if not hmac.compare_digest(raw[:16], self._signature(data)):
                raise ValueError
            values: list[Any] = bson.decode(data)["v"]
            if len(values) != count or any(map(_has_operator, values)):
                raise ValueError
        except Exception:
            raise ValueError("expected the token of a page of this query, with the same order") from None
        return values


def _has_operator(value: Any) -> bool:
    return isinstance(value, dict) and any(
        key[:1] == "$" or _has_operator(item) for key, item in value.items()
    )


def _sort_values(data: bytes, sort: dict[str, Any]) -> list[Any]:
    document = bson.decode(data, TOLERANT)
    found: list[Any] = []
    for key in sort:
        value: Any = document
        for part in key.split("."):
            value = value.get(part) if isinstance(value, dict) else value if isinstance(value, list) else None
        if isinstance(value, list):
            raise ValueError(
                f"cannot page by {key!r}: it is a list, which sorts by its elements; use paginate()"
            )
        found.append(value)
    return found


# BSON types in the server's sort order: the codes of their elements and their names, side by side where the server
# compares them with one another.
_ORDER = (
    (b"\xff", ("minKey",)),
    (b"\x06\x0a", ("null", "undefined")),
    (b"\x01\x10\x12\x13", ("number",)),
    (b"\x02\x0e", ("string", "symbol")),
    (b"\x03", ("object",)),
    (b"\x05", ("binData",)),
    (b"\x07", ("objectId",)),
    (b"\x08", ("bool",)),
    (b"\x09", ("date",)),
    (b"\x11", ("timestamp",)),
    (b"\x0b", ("regex",)),
    (b"\x0c", ("dbPointer",)),
    (b"\x0d", ("javascript",)),
    (b"\x0f", ("javascriptWithScope",)),
    (b"\x7f", ("maxKey",)),
)


def _rank(value: Any) -> int:
    """Return the position of a value's type in the sort order."""
    code = bson.encode({"": value})[4]
    return next(rank for rank, (codes, _) in enumerate(_ORDER) if code in codes)


def _beyond(key: str, value: Any, direction: int) -> list[dict[str, Any]]:
    """Return conditions on a key; together, as alternatives, they match all values that sort after this one."""
    rank = _rank(value)
    is_decimal = isinstance(value, bson.Decimal128)
    is_nan = value.to_decimal().is_nan() if is_decimal else isinstance(value, float) and math.isnan(value)
    found: list[dict[str, Any]] = []
    if direction == 1:
        # NaN sorts before all numbers and compares with none.
        if is_nan:
            found.append({key: {"$gte": -math.inf}})
        elif value is not None:
            found.append({key: {"$gt": value}})
        others = _ORDER[rank + 1 :]
    else:
        if value is not None and not is_nan:
            found.append({key: {"$lt": value}})
            if rank == 2:
                found.append({key: math.nan})
        others = _ORDER[:rank]
    types = [name for _, names in others for name in names]
    if "null" in types:
        # A missing key sorts as null does.
        found.append({key: None})
    if types:
        found.append({key: {"$type": types}})
    return found


def _behind(sort: dict[str, Any], values: list[Any]) -> dict[str, Any]:
    """Return the condition for documents after these values: a key is greater, or equal and the next key is greater."""
    alternatives: list[dict[str, Any]] = []
    equal: dict[str, Any] = {}
    for (key, direction), value in zip(sort.items(), values, strict=True):
        alternatives += [
            {"$and": [equal, beyond]} if equal else beyond for beyond in _beyond(key, value, direction)
        ]
        equal = {**equal, key: {"$eq": value}}
    return {"$or": alternatives}
