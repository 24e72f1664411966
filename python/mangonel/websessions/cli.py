"""`mangonel websessions setup|purge|stats|list|revoke|export URI`: manages a store. Prints one line for each result."""

from __future__ import annotations

import sys
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from mangonel._command_line import (
    EXIT_FAILURE,
    Parser,
    UsageProblem,
    add_command,
    add_uri,
    number,
    on_one_line,
)

if TYPE_CHECKING:
    import argparse

STORE = "the store, as mongodb://localhost/app or redis://localhost"
FAILURE = "the store could not be used"

# Name -> summary, more help.
ACTIONS = {
    "setup": (
        "make tables and indexes",
        "May be repeated. Needed only where the application itself may not.",
    ),
    "purge": (
        "remove expired records",
        "Needed where the engine does not do that by itself, every few minutes.",
    ),
    "stats": ("print how many websessions there are", ""),
    "list": (
        "print a user's websessions",
        "One line each: the id, when the user logged in, when it was last used, its label.",
    ),
    "export": (
        "print the stored data of a user as JSON",
        "Websessions with their values, and devices. What is sealed only the application can export.",
    ),
    "revoke": (
        "end a user's websessions, or one of them",
        "What is just being made ends too, unless an id is given. With an id, the remembered login of its device ends "
        "as well, unless records are sealed: then end all, or one in the application.",
    ),
}

# The arguments after the URI in an example.
MORE = {"list": " ada --match firefox", "export": " ada", "revoke": " ada 3f9c0d2be1a45f78"}


def add_arguments(commands: argparse._SubParsersAction[Any], name: str, purpose: str) -> Parser:
    """Add the command and its sub-commands."""
    parser = add_command(
        commands,
        name,
        purpose,
        description="Stores are MongoDB, Redis, MySQL, PostgreSQL, SQLite, folders and files.",
        example="mangonel websessions stats mongodb://localhost/app",
        failure=FAILURE,
    )
    actions = parser.add_subparsers(title="websessions commands", metavar="ACTION", required=True)
    for action, (help, more) in ACTIONS.items():
        each = add_command(
            actions,
            action,
            help,
            description=more,
            example=f"mangonel websessions {action} mongodb://localhost/app" + MORE.get(action, ""),
            failure=FAILURE,
        )
        add_uri(each, STORE, default="")
        each.set_defaults(action=action)
        if action in ("list", "revoke", "export"):
            each.add_argument("user", metavar="USER", help="as the application names the user")
        if action == "list":
            each.add_argument(
                "--match", default="", metavar="TEXT", help="only those with this text in the id or the label"
            )
        if action == "revoke":
            each.add_argument(
                "id", nargs="?", metavar="ID", help="of one websession, as `list` prints it (all)"
            )
            each.add_argument(
                "--absolute",
                default="30d",
                metavar="TIME",
                help="how long a websession of the application may last at most (30d)",
            )
        if action == "purge":
            each.add_argument(
                "--batch", type=number(1), default=1000, metavar="N", help="records removed at once (1000)"
            )
    return parser


def dispatch(options: argparse.Namespace) -> int:
    """Run the action; return the exit status."""
    import asyncio

    from mangonel.websessions.errors import UsageError

    if options.uri.startswith(("memory:", "cookie:")):
        raise UsageProblem(f"{options.uri.partition(':')[0]}: keeps nothing outside of the application")
    try:
        return asyncio.run(_act(options))
    except UsageError as error:
        if isinstance(error.__cause__, ImportError):
            print(f"{options.parser.prog}: {error}", file=sys.stderr)
            return EXIT_FAILURE
        raise UsageProblem(str(error)) from error


async def _act(options: argparse.Namespace) -> int:
    from mangonel.websessions.errors import StoreError, WebSessionError
    from mangonel.websessions.manager import WebSessions
    from mangonel.websessions.stores.urls import hide_password

    # A user's epoch must outlive every websession that it ends.
    lasts = getattr(options, "absolute", None)
    sessions: WebSessions[Any] = WebSessions(options.uri, events=lambda event: None, absolute=lasts)
    # No user logs in here, so ua-parser is not needed.
    sessions.has_devices = True
    face = sessions.asynchronous
    shown = hide_password(options.uri)
    # Printed at the end, so that a closed output is not taken for a fault of the store.
    said: list[str] = []
    try:
        if options.action == "setup":
            if not hasattr(face.store(), "setup"):
                said.append(f"{shown}: nothing to set up")
            else:
                await face.setup()
                said.append(f"{shown}: ready")
        elif options.action == "purge":
            said.append(f"{shown}: removed {await face.purge(options.batch)}")
        elif options.action == "list":
            for handle in await sessions.of(options.user):
                if options.match.lower() not in f"{handle.id} {handle.label or ''}".lower():
                    continue
                times = (_when(handle.created), _when(handle.last_seen))
                said.append("  ".join(filter(None, (handle.id, *times, on_one_line(handle.label or "")))))
        elif options.action == "export":
            import json

            said.append(json.dumps(await sessions.export(options.user), indent=2))
        elif options.action == "revoke":
            ended = await _revoke(sessions, options.user, options.id)
            if not ended and options.id is not None:
                print(f"{options.user} has no websession {options.id}", file=sys.stderr)
                return EXIT_FAILURE
            said.append(f"ended {ended}")
        else:
            said += [f"{name:>10}  {figure}" for name, figure in (await face.stats()).items()]
    except WebSessionError:
        raise
    except Exception as error:
        raise StoreError(f"{shown}: {type(error).__name__}: {error}") from error
    finally:
        await sessions.aclose()
    for line in said:
        print(line)
    return 0


async def _revoke(sessions: Any, user: str, id: str | None) -> int:
    """End all websessions of a user, or one; return how many ended."""
    if id is None:
        return int(await sessions.revoke_user(user))
    handle = next((each for each in await sessions.of(user) if each.id == id), None)
    return int(handle is not None and await sessions.revoke(handle))


def _when(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
