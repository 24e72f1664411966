"""The command `mangonel admin MODULE[:NAME]`: the admin of a program's models, on loopback, until Ctrl-C."""

from __future__ import annotations

import hmac
import os
import secrets
import signal
import sys
from typing import TYPE_CHECKING, Any

from mangonel._command_line import (
    EXIT_FAILURE,
    PORTS,
    Parser,
    UsageProblem,
    add_command,
    number,
    program_module,
)

if TYPE_CHECKING:
    import argparse

    from mangonel.admin._site import Admin

HOST, PORT = "127.0.0.1", 8001
PASSWORD = "MANGONEL_ADMIN_PASSWORD"


def add_arguments(commands: argparse._SubParsersAction[Any], name: str, purpose: str) -> Parser:
    """Add the command."""
    parser = add_command(
        commands,
        name,
        purpose,
        description=f"Listens on {HOST} only. NAME is a Connection, whose models are served, or an Admin; without it, "
        "the models of the default connection are served, which the module makes by connect(). Prints the address, and "
        f"for a Connection a password that holds until Ctrl-C, unless {PASSWORD} has one.",
        example="mangonel admin shop.models:db --port 8001",
        failure="the port is taken, or something failed",
    )
    parser.add_argument(
        "place", metavar="MODULE[:NAME]", help="where the models are connected, as shop.models:db"
    )
    parser.add_argument(
        "--port", type=number(*PORTS), default=PORT, metavar="P", help=f"0 takes a free one ({PORT})"
    )
    parser.add_argument("--user", default="admin", metavar="NAME", help="the name to log in with (admin)")
    return parser


def dispatch(options: argparse.Namespace) -> int:
    """Serve until Ctrl-C; return the exit status.

    Raises:
        UsageProblem: the module or the name does not exist, or the name is neither a Connection nor an Admin.
    """
    from socketserver import ThreadingMixIn
    from wsgiref.simple_server import WSGIRequestHandler, WSGIServer, make_server

    class Server(ThreadingMixIn, WSGIServer):
        daemon_threads = True

    class Handler(WSGIRequestHandler):
        def log_message(self, format: str, *arguments: Any) -> None:
            """Write nothing for each request."""

    admin, password = _admin(options)
    try:
        server = make_server(HOST, options.port, admin.wsgi(), Server, Handler)
    except OSError as error:
        print(f"mangonel admin: {error}; --port 0 takes a free one", file=sys.stderr)
        return EXIT_FAILURE
    # A plain `kill` ends it as Ctrl-C does.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    print(f"http://{HOST}:{server.server_port}/", flush=True)
    if password is not None:
        print(f"log in as {options.user} with {password}", flush=True)
    try:
        server.serve_forever()
    except KeyboardInterrupt:
        return 0
    finally:
        server.server_close()
    return 0


def _admin(options: argparse.Namespace) -> tuple[Admin, str | None]:
    """Return the admin, and the password generated for it."""
    from mangonel.admin import Admin
    from mangonel.admin._shown import served
    from mangonel.odm import Connection
    from mangonel.websessions import Cookie, WebSessions

    module_name, _, name = options.place.partition(":")
    module = program_module(module_name)
    found = getattr(module, name, None) if name else None
    if isinstance(found, Admin):
        return found, None
    if name and not isinstance(found, Connection):
        raise UsageProblem(
            f"expected a Connection or an Admin as {options.place}, got {type(found).__name__}"
        )
    alias = found.alias if isinstance(found, Connection) else "default"
    models = [model for model in served() if model.__connection__ == alias]
    if not models:
        raise UsageProblem(f"expected models on the connection {alias!r}, got none in {module_name}")
    given = os.environ.get(PASSWORD)
    password = given or secrets.token_urlsafe(12)

    def login(user: str, sent: str) -> str | None:
        is_right = hmac.compare_digest(sent.encode(), password.encode())
        return user if is_right and user == options.user else None

    # Loopback has no TLS, and some browsers keep no Secure cookie there.
    sessions = WebSessions[Any]("memory:", cookie=Cookie(secure=False))

    def allowed(user: str, action: str, model: type, document: object) -> bool:
        return user == str(options.user)

    admin = Admin(*models, sessions=sessions, allowed=allowed, login=login)
    return admin, None if given else password
