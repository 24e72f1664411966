"""Mangonel in a Django project: one client for each process, closed with it, and a health check.

    INSTALLED_APPS = ["mangonel.contrib.django", ...]
    MANGONEL = {"default": {"host": "mongodb://localhost/shop", "maxPoolSize": 20}}

`client()` returns the process's `MongoClient`, which the first call makes; in a forked worker it opens its own
connections. `health` is a view, and `manage.py check --database default` pings the deployments too.
"""

from __future__ import annotations

import asyncio
import atexit
import os
import threading
from typing import TYPE_CHECKING, Any

try:
    from django.apps import AppConfig
    from django.conf import settings
    from django.core import checks
    from django.core.exceptions import ImproperlyConfigured
    from django.http import HttpRequest, JsonResponse
except ImportError as error:  # pragma: no cover
    raise ImportError("mangonel.contrib.django needs Django: pip install django") from error

from mangonel import AsyncMongoClient, MongoClient
from mangonel.errors import PyMongoError

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["MangonelConfig", "async_client", "client", "close", "health"]

# How long a health check waits for a deployment, in milliseconds.
TIMEOUT_MS = 2000

_lock = threading.Lock()
_clients: dict[str, MongoClient[Any]] = {}
# One for all event loops: under WSGI each request to an `async def` view has its own loop.
_async_clients: dict[str, AsyncMongoClient[Any]] = {}


def client(alias: str = "default") -> MongoClient[Any]:
    """Return this process's client of a deployment; all threads share it.

    Args:
        alias: its name in the setting MANGONEL.

    Raises:
        ImproperlyConfigured: MANGONEL has no such name, or its arguments make no client.

    Example:
        >>> client().shop.orders.count_documents({})
        0
    """
    return _shared(_clients, MongoClient, alias)


def async_client(alias: str = "default") -> AsyncMongoClient[Any]:
    """Return this process's asyncio client of a deployment; all event loops share it.

    Args:
        alias: its name in the setting MANGONEL.

    Raises:
        ImproperlyConfigured: MANGONEL has no such name, or its arguments make no client.
        RuntimeError: no event loop runs, as in a view that is not `async def`; use `client()` there.

    Example:
        >>> await async_client().shop.orders.count_documents({})
        0
    """
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        raise RuntimeError(
            "expected a running event loop for async_client(), got none; use client() where no `async def` is"
        ) from None
    return _shared(_async_clients, AsyncMongoClient, alias)


def _shared(clients: dict[str, Any], kind: Any, alias: str) -> Any:
    found = clients.get(alias)
    if found is None or found._core.is_closed:
        with _lock:
            found = clients.get(alias)
            if found is None or found._core.is_closed:
                found = clients[alias] = _made(kind, alias)
    return found


def close() -> None:
    """Close the blocking clients of this process; the next `client()` makes another. Called when the process ends."""
    with _lock:
        closing = list(_clients.values())
        _clients.clear()
    for each in closing:
        each.close()


def health(request: HttpRequest) -> JsonResponse:
    """Respond 200 if every deployment of MANGONEL answers a ping, otherwise 503 with the names of those that do not.

    A view for `urls.py`. Each deployment has two seconds. The response names no hosts and no errors; the driver logs
    these.

    Args:
        request: the request.

    Example:
        >>> from django.urls import path
        >>> urlpatterns = [path("health", health)]
    """
    states = {alias: "up" if _failure(alias) is None else "down" for alias in _aliases()}
    is_up = all(state == "up" for state in states.values())
    return JsonResponse(
        {"status": "up" if is_up else "down", "deployments": states},
        status=200 if is_up else 503,
        headers={"Cache-Control": "no-store"},
    )


class MangonelConfig(AppConfig):  # type: ignore[misc]  # untyped
    """The application of INSTALLED_APPS: checks MANGONEL at the start, and its deployments in `manage.py check`."""

    name = "mangonel.contrib.django"
    label = "mangonel"
    verbose_name = "Mangonel"

    def ready(self) -> None:
        """Check that MANGONEL has names with arguments; Django calls it."""
        _aliases()
        checks.register(check_deployments, checks.Tags.database)


def check_deployments(
    app_configs: object, databases: Sequence[str] | None = None, **keywords: object
) -> list[checks.CheckMessage]:
    """Return an error for each deployment that does not answer; `manage.py check --database NAME` calls it.

    Args:
        app_configs: not used.
        databases: the names to check. None: check none, as in Django's other checks of databases.
        keywords: more of Django's arguments.

    Example:
        >>> check_deployments(None, ["default"])
        []
    """
    found: list[checks.CheckMessage] = []
    for alias in _aliases():
        if databases and alias in databases and (failure := _failure(alias)) is not None:
            found.append(
                checks.Error(f"the deployment {alias!r} does not answer: {failure}", id="mangonel.E001")
            )
    return found


def _aliases() -> list[str]:
    given = getattr(settings, "MANGONEL", None)
    if not isinstance(given, dict) or not given:
        raise ImproperlyConfigured(
            'expected MANGONEL = {"default": {"host": "mongodb://localhost/shop"}} in the settings, '
            f"got {type(given).__name__ if given is not None else 'none'}"
        )
    for alias, arguments in given.items():
        if not isinstance(alias, str):
            raise ImproperlyConfigured(f"expected names as the keys of MANGONEL, got {alias!r}")
        if not isinstance(arguments, dict):
            raise ImproperlyConfigured(
                f"expected MANGONEL[{alias!r}] as arguments of MongoClient, got {type(arguments).__name__}"
            )
    return list(given)


def _made(kind: Any, alias: str) -> Any:
    aliases = _aliases()
    if alias not in aliases:
        raise ImproperlyConfigured(f"expected one of {', '.join(aliases)} of MANGONEL, got {alias!r}")
    try:
        return kind(**settings.MANGONEL[alias])
    except (PyMongoError, TypeError, ValueError) as error:
        raise ImproperlyConfigured(f"MANGONEL[{alias!r}] makes no client: {error}") from error


def _failure(alias: str) -> str | None:
    from mangonel import timeout

    try:
        with timeout(TIMEOUT_MS / 1000):
            client(alias).admin.command("ping")
    except PyMongoError as error:
        return f"{type(error).__name__}: {error}"
    return None


def _unlock() -> None:
    # A thread of the parent may have held the lock. The clients themselves start over in a child.
    global _lock
    _lock = threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_unlock)
atexit.register(close)
