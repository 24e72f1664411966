"""`mangonel demo`: its arguments, and the deployment that it starts if none is named."""

from __future__ import annotations

import argparse
import errno
import sys
from contextlib import ExitStack
from typing import Any

from mangonel._command_line import EXIT_FAILURE, PORTS, Parser, add_command, add_uri, number


def add_arguments(commands: argparse._SubParsersAction[Any], name: str, purpose: str) -> Parser:
    """Add the command."""
    parser = add_command(
        commands,
        name,
        purpose,
        description="Starts a replica set of its own unless a deployment is named, prints the address of the site, "
        "and serves until Ctrl-C.",
        example="""
        mangonel demo --rate 100
        mangonel demo mongodb://localhost/?replicaSet=rs0 --rate 0
        """,
        failure="the server, the port or a module could not be had",
    )
    add_uri(parser, "a replica set or sharded cluster (default: start one, temporary)", default=None)
    parser.add_argument(
        "--database", default="mangonel_demo", metavar="NAME", help="where it stores (mangonel_demo)"
    )
    parser.add_argument(
        "--members", type=number(1, 50), default=3, metavar="N", help="of the replica set that is started (3)"
    )
    parser.add_argument("--dbpath", metavar="DIR", help="keep its data here (default: temporary)")
    parser.add_argument(
        "--host",
        default="127.0.0.1",
        metavar="HOST",
        help="address to listen on (default: this machine only)",
    )
    parser.add_argument(
        "--port", type=number(*PORTS), default=8000, metavar="P", help="to listen on; 0 is a free one (8000)"
    )
    parser.add_argument(
        "--rate",
        type=number(0, 1_000_000, of=float),
        default=5.0,
        metavar="N",
        help="customers a second; 0 is a closed shop (5)",
    )
    parser.add_argument(
        "--password", default="mangonel", metavar="TEXT", help="of the demo users ada and linus (mangonel)"
    )
    parser.add_argument(
        "--behind-tls",
        action="store_true",
        help="a proxy ends TLS: Secure cookies, X-Forwarded headers believed",
    )
    return parser


def dispatch(options: argparse.Namespace) -> int:
    """Start a deployment if needed, serve until Ctrl-C, and return an exit status."""
    import asyncio
    import socket

    from mangonel import server
    from mangonel.demo.app import serve
    from mangonel.demo.settings import Settings

    with ExitStack() as stack:
        uri, deployment = options.uri, None
        try:
            # Checked before a replica set is started for nothing.
            socket.create_server((options.host, options.port)).close()
            if uri is None:
                print(f"starting a replica set of {options.members}", file=sys.stderr, flush=True)
                deployment = stack.enter_context(server.start(options.members, options.dbpath))
                uri = deployment.uri
            settings = Settings(
                uri=uri,
                database=options.database,
                host=options.host,
                port=options.port,
                password=options.password,
                rate=options.rate,
                is_behind_tls=options.behind_tls,
            )
            asyncio.run(serve(settings, deployment))
        except OSError as error:
            if error.errno != errno.EADDRINUSE:
                raise
            reason = f"port {options.port} of {options.host} is taken; choose another with --port"
            print(f"{options.parser.prog}: {reason}", file=sys.stderr)
            return EXIT_FAILURE
    return 0
