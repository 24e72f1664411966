"""What `mangonel websessions setup|purge|stats URL` does with a store. Prints one line for each figure.

Beside the package, not in it: `mangonel --help` must not need what websessions need.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from mangonel._command_line import EXIT_FAILURE, UsageProblem

if TYPE_CHECKING:
    import argparse

__all__ = ["add_arguments", "dispatch"]

ACTIONS = {
    "setup": "make tables and indexes; may be repeated",
    "purge": "remove what expired, where the engine does not do that itself",
    "stats": "print how many websessions there are",
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments; imports nothing else."""
    parser.add_argument(
        "action", choices=list(ACTIONS), help="; ".join(f"{k}: {v}" for k, v in ACTIONS.items())
    )
    parser.add_argument("url", metavar="URL", help="of the store, as mongodb://localhost/app")
    parser.add_argument(
        "--batch", type=int, default=1000, metavar="N", help="records removed at once (purge)"
    )


def dispatch(options: argparse.Namespace) -> int:
    """Run the action; return the exit status."""
    import asyncio

    from mangonel.websessions.errors import UsageError, WebSessionError

    if options.batch < 1:
        raise UsageProblem(f"expected --batch above zero, got {options.batch}")
    if options.url.startswith(("memory:", "cookie:")):
        raise UsageProblem(f"{options.url.partition(':')[0]}: keeps nothing outside of the application")
    try:
        return asyncio.run(_act(options))
    except UsageError as error:
        raise UsageProblem(str(error)) from error
    except WebSessionError as error:
        print(error, file=sys.stderr)
        return EXIT_FAILURE


async def _act(options: argparse.Namespace) -> int:
    from mangonel.websessions.errors import StoreError, WebSessionError
    from mangonel.websessions.manager import WebSessions
    from mangonel.websessions.stores.urls import hide_password

    sessions: WebSessions[Any] = WebSessions(options.url, events=lambda event: None)
    face = sessions.asynchronous
    shown = hide_password(options.url)
    try:
        if options.action == "setup":
            if not hasattr(face.store(), "setup"):
                print(f"{shown}: nothing to set up")
                return 0
            await face.setup()
            print(f"{shown}: ready")
        elif options.action == "purge":
            print(f"{shown}: removed {await face.purge(options.batch)}")
        else:
            for name, figure in (await face.stats()).items():
                print(f"{name:>10}  {figure}")
    except WebSessionError:
        raise
    except Exception as error:
        raise StoreError(f"{shown}: {type(error).__name__}: {error}") from error
    finally:
        await sessions.aclose()
    return 0
