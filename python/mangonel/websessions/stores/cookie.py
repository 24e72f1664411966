"""The placeholder store of `cookie:`: the websession is in its cookie, sealed; see `stateless.py`.

A call that reaches it is a bug of ours.
"""

from __future__ import annotations

from mangonel.websessions.stores.urls import StoreURL

__all__ = ["NoStore"]


class NoStore:
    """Has no records, and so no methods."""


def from_url(url: StoreURL) -> NoStore:
    """Return the placeholder store for `cookie:`."""
    url.finish()
    return NoStore()


blocking_from_url = from_url
