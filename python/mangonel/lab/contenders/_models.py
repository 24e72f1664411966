"""What the documents of the mapper experiments hold, as tables of types, for mappers to make classes of.

A user has five keys, a post 18 with an author, a place and comments inside.
"""

from __future__ import annotations

import datetime as dt
from types import GenericAlias
from typing import Any

USERS, POSTS = "users", "posts"

USER: dict[str, Any] = {"name": str, "age": int, "birthday": dt.datetime, "timestamp": dt.datetime}
AUTHOR: dict[str, Any] = {"name": str, "email": str}
COMMENT: dict[str, Any] = {"author": str, "text": str, "at": dt.datetime, "likes": int}
LOCATION: dict[str, Any] = {"type": str, "coordinates": list[float]}


def post(author: Any, tags: Any, location: Any, comments: Any) -> dict[str, Any]:
    """Return a post's fields, given the types of those that are not plain."""
    return {
        **dict.fromkeys(("title", "slug", "body", "status", "lang"), str),
        "author": author,
        "tags": tags,
        "category": str,
        "views": int,
        "likes": int,
        "rating": float,
        "published": bool,
        "location": location,
        "created": dt.datetime,
        "updated": dt.datetime,
        "comments": comments,
        "source": str,
    }


def annotated(
    name: str, base: Any, fields: dict[str, Any], settings: dict[str, Any] | None = None, **namespace: Any
) -> Any:
    """Return a class with these annotations, as if it had been written out; `settings` are an inner class's."""
    body = {"__module__": __name__, "__qualname__": name, "__annotations__": fields, **namespace}
    if settings is not None:
        where = {"__module__": __name__, "__qualname__": f"{name}.Settings"}
        body["Settings"] = type("Settings", (), {**settings, **where})
    return type(base)(name, (base,), body)


def list_of(kind: Any) -> Any:
    """Return the type of a list of a class that was made here."""
    return GenericAlias(list, (kind,))
