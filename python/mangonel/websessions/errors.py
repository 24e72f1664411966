"""The errors of websessions, as one tree. Knows no framework: `status` is the HTTP status for a web layer.

WebSessionError
├── UsageError            a setting or a call that makes no sense (also a ValueError)
│   └── Unsupported       the engine lacks what the call needs
├── EncodeError           a value that the codec cannot store
├── SessionTooLarge       the encoded session exceeds max_bytes, or 4096 bytes of cookie
├── CSRFError             a token or an origin that does not belong to this websession; 403
├── NotFresh              the user has to prove their identity again; 403
├── TooManySessions       the user already has max_per_user; 409
├── SessionMoved          the websession got a new id while this request ran, and the change could not follow; 409
├── LockTimeout           the websession's lock was not available, or expired; 503 (also a TimeoutError)
└── StoreError            the store did not answer, or gave a wrong answer; 503
"""

from __future__ import annotations

__all__ = [
    "CSRFError",
    "EncodeError",
    "LockTimeout",
    "NotFresh",
    "SessionMoved",
    "SessionTooLarge",
    "StoreError",
    "TooManySessions",
    "Unsupported",
    "UsageError",
    "WebSessionError",
]


class WebSessionError(Exception):
    """Base of this package's errors; `status` is the matching HTTP status."""

    status = 500


class UsageError(WebSessionError, ValueError):
    """A setting or a call that makes no sense."""


class Unsupported(UsageError):
    """The engine lacks a feature that the call needs; use another store, or `epochs=`."""


class EncodeError(WebSessionError, TypeError):
    """The codec cannot store the type of a value in the websession."""


class SessionTooLarge(WebSessionError):
    """The encoded websession exceeds its limit. Nothing was sent to the store."""


class CSRFError(WebSessionError):
    """The request carries no token of this websession, or comes from another site."""

    status = 403


class NotFresh(WebSessionError):
    """The user has not proved their identity within the time that a page asks for: ask for the password again."""

    status = 403


class TooManySessions(WebSessionError):
    """The user has as many websessions as `max_per_user` allows, and the policy is "refuse"."""

    status = 409


class SessionMoved(WebSessionError):
    """The websession got a new id while this request ran, and its change could not follow. Nothing was stored.

    The browser has the new cookie, or is about to get it: repeating the request finds the websession.
    """

    status = 409


class LockTimeout(WebSessionError, TimeoutError):
    """Other requests held the websession's lock for too long, or it expired before the end of its block."""

    status = 503


class StoreError(WebSessionError):
    """The store failed. Whether a write arrived is unknown; no cookie was changed."""

    status = 503
