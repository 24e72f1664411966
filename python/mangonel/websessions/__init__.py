"""HTTP sessions for Tornado, Starlette, FastAPI, Flask and any WSGI, on MongoDB, Redis, Memcached, MySQL, PostgreSQL,
SQLite, files, memory or a sealed cookie.

    sessions = WebSessions("mongodb://localhost/app")

A session here is always a `websession`, since "session" means the driver's logical session. See docs/websessions.
"""

from __future__ import annotations

try:
    import msgspec as _msgspec  # noqa: F401
except ImportError as error:
    raise ImportError('websessions need the package msgspec: pip install "mangonel[websessions]"') from error

from mangonel.websessions.checked_settings import new_key
from mangonel.websessions.devices import Device
from mangonel.websessions.errors import (
    CSRFError,
    EncodeError,
    LockTimeout,
    NotFresh,
    SessionMoved,
    SessionTooLarge,
    StoreError,
    TooManySessions,
    Unsupported,
    UsageError,
    WebSessionError,
)
from mangonel.websessions.events import Event
from mangonel.websessions.manager import WebSessions
from mangonel.websessions.record import Record
from mangonel.websessions.session import Flash, RequestView, WebSession
from mangonel.websessions.settings import Content, Cookie, Keys, Lifetime, Outages, Protection, Users
from mangonel.websessions.stores.memory import MemoryStore
from mangonel.websessions.stores.urls import StoreURL, register_store
from mangonel.websessions.users import Handle

__all__ = [
    "CSRFError",
    "Content",
    "Cookie",
    "Device",
    "EncodeError",
    "Event",
    "Flash",
    "Handle",
    "Keys",
    "Lifetime",
    "LockTimeout",
    "MemoryStore",
    "NotFresh",
    "Outages",
    "Protection",
    "Record",
    "RequestView",
    "SessionMoved",
    "SessionTooLarge",
    "StoreError",
    "StoreURL",
    "TooManySessions",
    "Unsupported",
    "UsageError",
    "Users",
    "WebSession",
    "WebSessionError",
    "WebSessions",
    "new_key",
    "register_store",
]
