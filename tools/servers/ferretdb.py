"""Fetch FerretDB 2.7.0 on PostgreSQL 18 with DocumentDB, start both, and print the URI on one line.

`go install` builds FerretDB, so this system needs Go. PostgreSQL runs in a Debian unstable of its own (1.5 GB, in
--folder), which debootstrap makes; that needs root. The data is new at each start and removed at the end.

  tools/servers/ferretdb.py --port 27017                until Ctrl-C
  make test-server URI=mongodb://127.0.0.1:27017/       the tests on it, from another terminal
"""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import debian
from common import ROOT, Problem, main_of, parser_of, run, say

MODULE = "github.com/FerretDB/FerretDB/v2/cmd/ferretdb"
VERSION = "v2.7.0"
PACKAGE = "postgresql-18-documentdb"
PROGRAMS = "/usr/lib/postgresql/18/bin"
HOST = "127.0.0.1"
TIMEOUT = 120.0
SETTINGS = """\
listen_addresses = '{host}'
port = {port}
unix_socket_directories = ''
shared_preload_libraries = 'pg_cron,pg_documentdb_core,pg_documentdb'
cron.database_name = 'postgres'
documentdb.enableLetAndCollationForQueryMatch = true
documentdb.enableNowSystemVariable = true
documentdb.enableSortbyIdPushDownToPrimaryKey = true
documentdb.enableSchemaValidation = true
documentdb.enableBypassDocumentValidation = true
fsync = off
"""


def main() -> int:
    """Run the script."""
    parser = parser_of(__doc__)
    parser.add_argument("--mirror", default=debian.MIRROR, help="of Debian (%(default)s)")
    parser.add_argument("--path", action="store_true", help="fetch and build, but start nothing")
    options = parser.parse_args()
    folder = options.folder.resolve()
    program = build(folder)
    root = debian.make(folder, [PACKAGE], options.mirror)
    if options.path:
        print(program)
        return 0
    data = root / "var/lib/postgresql" / f"data-{os.getpid()}"
    processes: list[subprocess.Popen[bytes]] = []
    try:
        port = options.port or free_port()
        url = start_postgresql(root, data, processes)
        command: list[str | Path] = [program, f"--postgresql-url={url}", f"--listen-addr={HOST}:{port}"]
        command += ["--debug-addr=-", "--no-auth", "--telemetry=disable", "--log-level=WARN"]
        command += [f"--state-dir={data}"]
        start(command, data / "ferretdb.log", processes)
        wait_until_it_answers(port, processes[-1], data / "ferretdb.log")
        print(f"mongodb://{HOST}:{port}/", flush=True)
        while all(process.poll() is None for process in processes):
            time.sleep(0.5)
        raise Problem(f"expected both to run, one ended: {tail(data / 'ferretdb.log')}")
    finally:
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN)  # a second one would leave the data behind
        # In reverse order, so that FerretDB has its database until its end.
        for process in reversed(processes):
            stop(process)
        shutil.rmtree(data, ignore_errors=True)


def build(folder: Path) -> Path:
    """Return the program, built once."""
    program = folder / f"ferretdb-{VERSION}" / "ferretdb"
    if not program.exists():
        if shutil.which("go") is None:
            raise Problem("expected Go, which builds FerretDB; it is not installed")
        say(f"building FerretDB {VERSION}: minutes")
        run(["go", "install", f"{MODULE}@{VERSION}"], env={**os.environ, "GOBIN": str(program.parent)})
    return program


def start_postgresql(root: Path, data: Path, processes: list[subprocess.Popen[bytes]]) -> str:
    """Start a new PostgreSQL with DocumentDB and return its URL."""
    port = free_port()
    inside = f"/{data.relative_to(root)}"
    # Not the user's home, so that nothing of an earlier run stays.
    user = ["setpriv", "--reuid=postgres", "--regid=postgres", "--clear-groups", "--pdeathsig=INT"]
    debian.check(root, ["install", "--directory", "--owner=postgres", "--group=postgres", inside])
    base = f"{inside}/base"
    initialise = ["initdb", "-D", base, "-U", "postgres", "-A", "trust", "-E", "UTF8", "--locale=C.UTF-8"]
    initialise[0] = f"{PROGRAMS}/initdb"
    debian.check(root, [*user, *initialise, "--no-sync"])
    with (data / "base/postgresql.conf").open("a") as file:
        file.write(SETTINGS.format(host=HOST, port=port))
    start(
        debian.entering(root, [*user, f"{PROGRAMS}/postgres", "-D", base]), data / "postgres.log", processes
    )
    psql = [f"{PROGRAMS}/psql", "-h", HOST, "-p", str(port), "-U", "postgres", "-q"]
    deadline = time.monotonic() + TIMEOUT
    while True:
        try:
            debian.check(root, [*psql, "-c", "SELECT 1"])
            break
        except Problem as problem:
            if processes[-1].poll() is not None or time.monotonic() > deadline:
                raise Problem(f"PostgreSQL did not start: {tail(data / 'postgres.log')}") from problem
            time.sleep(0.3)
    debian.check(root, [*psql, "-c", "CREATE EXTENSION documentdb CASCADE"])
    return f"postgres://postgres@{HOST}:{port}/postgres"


def wait_until_it_answers(port: int, process: subprocess.Popen[bytes], log: Path) -> None:
    """Wait for a reply to `hello`."""
    sys.path.insert(0, str(ROOT / "python"))
    from mangonel.server.wire import run_command

    deadline = time.monotonic() + TIMEOUT
    while True:
        try:
            run_command(port, {"hello": 1})
        except OSError as error:
            if process.poll() is not None or time.monotonic() > deadline:
                raise Problem(f"FerretDB did not answer: {error}; {tail(log)}") from error
            time.sleep(0.2)
        else:
            return


def start(command: list[str | Path], log: Path, processes: list[subprocess.Popen[bytes]]) -> None:
    """Start a program that ends with this one; Ctrl-C reaches only this process."""
    with log.open("wb") as output:
        text = [str(part) for part in command]
        processes.append(
            subprocess.Popen(
                text, stdin=subprocess.DEVNULL, stdout=output, stderr=output, start_new_session=True
            )
        )


def stop(process: subprocess.Popen[bytes]) -> None:
    """End a program; kill it after ten seconds."""
    process.send_signal(signal.SIGINT)
    try:
        process.wait(10)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def free_port() -> int:
    """Return a free port."""
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        return int(probe.getsockname()[1])


def tail(path: Path) -> str:
    """Return the end of a log."""
    return path.read_text(errors="replace").strip()[-500:] if path.exists() else "it wrote nothing"


if __name__ == "__main__":
    main_of(main)
