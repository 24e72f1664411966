"""Django for tests: configured once in a process, with a handler for each set of websessions."""

from __future__ import annotations

import types
from collections.abc import Callable, Sequence
from typing import Any

import django
from django.conf import settings
from django.urls import path

ENGINE = "mangonel.websessions.frameworks.django"


def urls(*routes: Any) -> types.ModuleType:
    """Return a module of URLs; ROOT_URLCONF accepts it in place of a name."""
    module = types.ModuleType("urls")
    module.urlpatterns = list(routes)  # type: ignore[attr-defined]
    return module


BASE = {
    "SECRET_KEY": "s" * 50,
    "ALLOWED_HOSTS": ["*"],
    "DATABASES": {
        "default": {"ENGINE": "django.db.backends.sqlite3", "NAME": "file:tests?mode=memory&cache=shared"}
    },
    "DEFAULT_AUTO_FIELD": "django.db.models.AutoField",
    "INSTALLED_APPS": ["django.contrib.contenttypes", "django.contrib.auth", "django.contrib.sessions"],
    "LOGGING_CONFIG": None,
    "MIDDLEWARE": [f"{ENGINE}.SessionMiddleware"],
    "ROOT_URLCONF": urls(),
    "SESSION_ENGINE": ENGINE,
    "USE_TZ": True,
}


def configure() -> None:
    """Configure Django, once."""
    if not settings.configured:
        settings.configure(**BASE)
        django.setup()
        from django.contrib.auth.models import update_last_login
        from django.contrib.auth.signals import user_logged_in

        # It writes to a table that most tests do not create.
        user_logged_in.disconnect(update_last_login, dispatch_uid="update_last_login")


def handler(
    sessions: Any,
    page: Callable[..., Any] | None = None,
    *,
    routes: Sequence[Any] = (),
    is_async: bool = False,
    revalidate: Any = None,
) -> Any:
    """Return a WSGI or ASGI application whose page is a view. The settings stay until the next call."""
    configure()
    from django.core.handlers.asgi import ASGIHandler
    from django.core.handlers.wsgi import WSGIHandler

    settings.WEBSESSIONS = sessions
    settings.WEBSESSIONS_REVALIDATE = revalidate
    own = urls(path("", page)) if page is not None else urls(*routes)

    made = ASGIHandler() if is_async else WSGIHandler()
    inner = made.resolve_request

    # Each handler has its own URLs, though one process holds several.
    def resolve_request(request: Any) -> Any:
        request.urlconf = own
        return inner(request)

    made.resolve_request = resolve_request
    return made
