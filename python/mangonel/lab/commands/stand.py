"""`mangonel lab up|down`: private servers that stand until they are told to go."""

from __future__ import annotations

import argparse
import sys

from mangonel.engines import daemon
from mangonel.engines.stores import ENGINES
from mangonel.lab.commands.play import check


def up_command(options: argparse.Namespace) -> int:
    """Start servers on loopback and print where they are; the same again when they stand already."""
    check("store", options.store, ENGINES)
    order = {"stores": sorted(set(options.store)), "latency_ms": options.latency}
    try:
        found, is_new = daemon.up(order, daemon.folder())
    except daemon.DaemonError as error:
        print(f"nothing was started: {error}", file=sys.stderr)
        return 1
    width = max(map(len, found.uris))
    for name, uri in found.uris.items():
        print(f"{name.ljust(width)}  {uri}")
    if not is_new:
        print("they stood already", file=sys.stderr)
    print("`mangonel lab run URI` plays there, `mangonel lab down` ends them", file=sys.stderr)
    return 0


def down_command(options: argparse.Namespace) -> int:
    """End what `up` started, and nothing else; with nothing to end that is said, and no failure."""
    print("ended" if daemon.down(daemon.folder()) else "nothing stands", file=sys.stderr)
    return 0
