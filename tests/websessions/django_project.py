"""A Django project with the admin, for a real browser: `python django_project.py MONGODB_URI FOLDER`.

Prints its port once it listens, and ends when its standard input does. Its user is ada, password "engine no. 1".
"""

from __future__ import annotations

import io
import os
import socketserver
import sys
import types
from pathlib import Path
from typing import Any
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer, make_server

import django
from django.conf import settings
from django.urls import path

from mangonel.websessions import WebSessions

ENGINE = "mangonel.websessions.frameworks.django"
PASSWORD = "engine no. 1"
APPS = ("admin", "auth", "contenttypes", "messages", "sessions", "staticfiles")
CONTEXT = ("django.template.context_processors.request", "django.contrib.auth.context_processors.auth")


def configure(uri: str, folder: str, **more: Any) -> None:
    """Configure the project; its tables are in a file of the folder."""
    urls = types.ModuleType("project_urls")
    values: dict[str, Any] = {
        "SECRET_KEY": "s" * 50,
        "ALLOWED_HOSTS": ["*"],
        "DATABASES": {
            "default": {"ENGINE": "django.db.backends.sqlite3", "NAME": str(Path(folder, "project.db"))}
        },
        "INSTALLED_APPS": ["mangonel.contrib.django", *(f"django.contrib.{app}" for app in APPS)],
        "LOGGING_CONFIG": None,
        "MANGONEL": {"default": {"host": uri}},
        "MIDDLEWARE": [
            f"{ENGINE}.SessionMiddleware",
            "django.middleware.csrf.CsrfViewMiddleware",
            "django.contrib.auth.middleware.AuthenticationMiddleware",
            "django.contrib.messages.middleware.MessageMiddleware",
        ],
        "PASSWORD_HASHERS": ["django.contrib.auth.hashers.MD5PasswordHasher"],
        "ROOT_URLCONF": urls,
        "SESSION_ENGINE": ENGINE,
        "STATIC_URL": "static/",
        "TEMPLATES": [
            {
                "BACKEND": "django.template.backends.django.DjangoTemplates",
                "APP_DIRS": True,
                "OPTIONS": {
                    "context_processors": [*CONTEXT, "django.contrib.messages.context_processors.messages"]
                },
            }
        ],
        "USE_TZ": True,
        # The tests' pages come over plain http.
        "WEBSESSIONS": WebSessions(uri, secure=False),
    }
    settings.configure(**(values | more))
    django.setup()
    from django.contrib import admin
    from django.http import HttpRequest, HttpResponse

    from mangonel.contrib import django as deployments
    from mangonel.contrib.django import client, health

    # A busy machine must not look like a deployment that is down.
    deployments.TIMEOUT_MS = 60_000

    def worker(request: HttpRequest) -> HttpResponse:
        client().admin.command("ping")
        return HttpResponse(str(os.getpid()))

    urls.urlpatterns = [  # type: ignore[attr-defined]
        path("admin/", admin.site.urls),
        path("health", health),
        path("worker", worker),
    ]


def make_tables() -> None:
    """Make the tables and the user."""
    from django.contrib.auth import get_user_model
    from django.core.management import call_command

    call_command("check", databases=["default"], stdout=io.StringIO())
    call_command("migrate", verbosity=0)
    get_user_model().objects.create_superuser("ada", "ada@example.org", PASSWORD)


class Threads(socketserver.ThreadingMixIn, WSGIServer):
    """A server with a thread for each connection."""

    daemon_threads = True


class Quiet(WSGIRequestHandler):
    """Logs nothing."""

    def log_message(self, *arguments: object) -> None:
        pass


def serve() -> None:
    """Serve until the standard input ends."""
    import threading

    from django.contrib.staticfiles.handlers import StaticFilesHandler
    from django.core.wsgi import get_wsgi_application

    application = StaticFilesHandler(get_wsgi_application())
    server = make_server("127.0.0.1", 0, application, server_class=Threads, handler_class=Quiet)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    print(server.server_port, flush=True)
    sys.stdin.read()


if __name__ == "__main__":
    configure(sys.argv[1], sys.argv[2], DEBUG=True)
    make_tables()
    serve()
