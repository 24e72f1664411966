"""Advice while developing: a reference that is loaded in a loop, with the `include()` that would help."""

from __future__ import annotations

from typing import Any


def note_fetch(request: Any, owner: Any, name: str, what: str) -> None:
    """Tell the client's advisor, if it has one, that a reference's documents are fetched on their own.

    Args:
        request: the request that fetches them.
        owner: the model with the reference.
        name: the reference's attribute.
        what: the call that fetched it, such as `get()`.
    """
    advisor = request.connection.clients.get(request.port.is_async)._advisor
    if advisor is not None:
        path = f"{owner.__name__}.{name}"
        advisor.repeated(
            path,
            f"reference in a loop: {path} is fetched by {what} again and again; load the {owner.__name__} "
            f"documents with include({path}), which fetches it for all of them at once",
        )
