"""The documents of the mapper experiments as tables of types, from which mappers make classes.

A user has five keys. A post has 18, with an embedded author, location and comments. The others are the specification's.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from types import GenericAlias
from typing import Any

USERS, POSTS = "users", "posts"
SMALL, LARGE, NESTED, JOINED = "small", "large", "nested", "joined"
# Makes a class from a name and the types of its fields.
Make = Callable[[str, dict[str, Any]], Any]

USER: dict[str, Any] = {"name": str, "age": int, "birthday": dt.datetime, "timestamp": dt.datetime}
AUTHOR: dict[str, Any] = {"name": str, "email": str}
COMMENT: dict[str, Any] = {"author": str, "text": str, "at": dt.datetime, "likes": int}
LOCATION: dict[str, Any] = {"type": str, "coordinates": list[float]}
FIELDS = [f"field{number}" for number in range(1, 16)]
ONE, ARRAY = "embedded_str_doc_1", "embedded_str_doc_array"
# Models without embedded documents.
FLAT: dict[str, dict[str, Any]] = {
    USERS: USER,
    SMALL: {f"field{n}": str if n <= 7 else int for n in range(1, 14)},
    LARGE: {**{f"field{n}": str if n <= 125 else int for n in range(1, 251)}, "image_field": bytes},
}


def fields_of(
    kind: str, embedded: Make, location: Any = None, **others: Callable[[Any], Any]
) -> dict[str, Any]:
    """Return the fields of a kind.

    Args:
        embedded: makes the class of an embedded document.
        location: the type of a location, for mappers that have one.
        others: `one`, `strings` and `many`: the mapper's types for an embedded class, a list of str, and a list of a
            class.
    """
    one, strings = others.get("one", lambda kind: kind), others.get("strings", list_of)
    many = others.get("many", list_of)
    if kind == NESTED:
        texts, numbers = (embedded(f"All{each.__name__}", dict.fromkeys(FIELDS, each)) for each in (str, int))
        found = {f"embedded_str_doc_{n}": one(texts) for n in range(1, 6)} | {ARRAY: many(texts)}
        return found | {f"embedded_int_doc_{n}": one(numbers) for n in range(8, 15)}
    if kind != POSTS:
        return FLAT[kind]
    return {
        **dict.fromkeys(("title", "slug", "body", "status", "lang"), str),
        "author": one(embedded("Author", AUTHOR)),
        "tags": strings(str),
        "category": str,
        "views": int,
        "likes": int,
        "rating": float,
        "published": bool,
        "location": location or embedded("Location", LOCATION),
        "created": dt.datetime,
        "updated": dt.datetime,
        "comments": many(embedded("Comment", COMMENT)),
        "source": str,
    }


def annotated(
    base: Any, name: str, fields: dict[str, Any], settings: dict[str, Any] | None = None, **namespace: Any
) -> Any:
    """Return a class with these annotations, as if written in source; `settings` go into an inner class."""
    body = {"__module__": __name__, "__qualname__": name, "__annotations__": fields, **namespace}
    if settings is not None:
        where = {"__module__": __name__, "__qualname__": f"{name}.Settings"}
        body["Settings"] = type("Settings", (), {**settings, **where})
    return type(base)(name, (base,), body)


def fielded(base: Any, name: str, types: dict[str, Any], kinds: dict[Any, Any], **namespace: Any) -> Any:
    """Return a class whose fields are objects. `types` has such objects, or keys of `kinds`, which makes them."""
    fields = {key: kinds[kind]() if kind in kinds else kind for key, kind in types.items()}
    return type(base)(name, (base,), {**fields, **namespace, "__module__": __name__})


def list_of(kind: Any) -> Any:
    return GenericAlias(list, (kind,))
