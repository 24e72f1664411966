"""What can go wrong with websessions, as one tree. Knows no framework: `status` is what a web layer should answer.

WebSessionError
├── UsageError            a setting or a call that cannot be meant (also a ValueError)
│   └── Unsupported       the engine lacks what the call needs
├── EncodeError           a value that the codec cannot store
├── SessionTooLarge       the encoded session exceeds max_bytes, or 4096 bytes of cookie
├── CSRFError             a token or an origin that does not belong to this websession; 403
├── TooManySessions       the user has max_per_user already; 409
├── SessionMoved          the websession took a new id while this request ran, and the change could not follow; 409
├── LockTimeout           the websession's lock was not to be had, or did not last; 503 (also a TimeoutError)
└── StoreError            the store did not answer, or answered wrongly; 503
"""

from __future__ import annotations

__all__ = [
    "CSRFError",
    "EncodeError",
    "LockTimeout",
    "SessionMoved",
    "SessionTooLarge",
    "StoreError",
    "TooManySessions",
    "Unsupported",
    "UsageError",
    "WebSessionError",
]


class WebSessionError(Exception):
    """The root of this package's errors; `status` is the HTTP status that suits it."""

    status = 500


class UsageError(WebSessionError, ValueError):
    """A setting or a call that cannot be meant."""


class Unsupported(UsageError):
    """The engine lacks what the call needs; another store, or `epochs=`, has it."""


class EncodeError(WebSessionError, TypeError):
    """A value in the websession is of a type that the codec cannot store."""


class SessionTooLarge(WebSessionError):
    """The encoded websession exceeds its limit. Nothing was sent to the store."""


class CSRFError(WebSessionError):
    """The request carries no token of this websession, or comes from another site."""

    status = 403


class TooManySessions(WebSessionError):
    """The user has as many websessions as `max_per_user` allows, and the policy is "refuse"."""

    status = 409


class SessionMoved(WebSessionError):
    """The websession took a new id while this request ran, and its change could not follow. Nothing was stored.

    The browser has the new cookie, or is about to get it: the same request sent again finds the websession.
    """

    status = 409


class LockTimeout(WebSessionError, TimeoutError):
    """Other requests held the websession's lock for too long, or it ended before the block that it was taken for."""

    status = 503


class StoreError(WebSessionError):
    """The store did not do what was asked. Whether a write arrived is unknown; no cookie was changed."""

    status = 503
