"""Runs the engines that websessions can be stored in, each on a free loopback port with temporary data.

For the lab and for tests. Finds Debian's programs, and installs what is missing when MANGONEL_INSTALL_SERVERS is set
and this user may. MongoDB is not here: `mangonel.server` runs it. Nothing here knows a driver.
"""

from __future__ import annotations

import fcntl
import glob
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any
from urllib.parse import quote

from mangonel.lab import cores
from mangonel.lab.certificates import Certificates

__all__ = ["ENGINES", "PACKAGES", "Engine", "Missing", "find_program", "installing_nothing", "running"]

# Debian's package of each program.
PACKAGES = {
    "redis-server": "redis-server",
    "memcached": "memcached",
    "mariadbd": "mariadb-server",
    "mariadb-install-db": "mariadb-server",
    "postgres": "postgresql",
    "initdb": "postgresql",
    "nginx": "nginx",
    "openssl": "openssl",
    "ab": "apache2-utils",
    "chromium": "chromium",
    "strace": "strace",
    "valgrind": "valgrind",
    "wrk": "wrk",
}

# The variable that wants missing programs installed.
WISH = "MANGONEL_INSTALL_SERVERS"

# Programs that do as well, where the first is not there.
STAND_INS = {"redis-server": ("valkey-server",)}

# Where Debian puts what is not on everybody's PATH.
FOLDERS = ("/usr/sbin", "/usr/local/sbin", "/usr/lib/postgresql/*/bin", "/usr/libexec")

START_TIMEOUT = 60.0
INSTALL_TIMEOUT = 600.0
# Databases that refuse to run as root run as this user then.
UNPRIVILEGED = "nobody"


class Missing(Exception):
    """A server cannot be had here; the text says why and what would help."""


def find_program(name: str) -> str:
    """Return a program's path, after installing its package if that is wanted and allowed.

    Raises:
        Missing: it is not there.
    """
    names = (name, *STAND_INS.get(name, ()))
    found = next((path for each in names if (path := _look_for(each)) is not None), None)
    if found is None and os.environ.get(WISH):
        problem = _install(PACKAGES[name])
        found = _look_for(name)
        if found is None:
            raise Missing(f"{name} is not installed, and installing {PACKAGES[name]} failed: {problem}")
    if found is None:
        raise Missing(f"{name} is not installed; Debian's package is {PACKAGES[name]}")
    return found


@contextmanager
def installing_nothing() -> Iterator[None]:
    """Let `find_program` look, but install nothing within this block."""
    wish = os.environ.pop(WISH, None)
    try:
        yield
    finally:
        if wish is not None:
            os.environ[WISH] = wish


class Engine:
    """A running server: its URL, and how to stall, end and start it again.

    Attributes:
        name: of the engine.
        url: for `WebSessions`.
        unix_url: the same over a Unix socket, or "" where there is none.
        port: on 127.0.0.1.
        pid: of the server.
    """

    def __init__(
        self,
        name: str,
        url: str,
        port: int,
        command: list[str],
        directory: str,
        user: str | None,
        is_ready: Callable[[], bool],
    ) -> None:
        self.name = name
        self.url = url
        self.unix_url = ""
        self.port = port
        self._command = command
        self._directory = directory
        self._user = user
        self._is_ready = is_ready
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int:
        """The server's process id."""
        assert self._process is not None
        return self._process.pid

    def start(self) -> None:
        """Start it, and return when it answers."""
        with open(os.path.join(self._directory, "output"), "ab") as output:
            keywords: dict[str, Any] = {"user": self._user, "group": "nogroup"} if self._user else {}
            with cores.kept("servers"):
                self._process = subprocess.Popen(
                    self._command,
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=output,
                    cwd=self._directory,
                    start_new_session=True,
                    **keywords,
                )
        deadline = time.monotonic() + START_TIMEOUT
        while not self._is_ready():
            if self._process.poll() is not None or time.monotonic() > deadline:
                self.kill()
                raise Missing(f"{self.name} did not start: {self._tail()}")
            time.sleep(0.02)

    def kill(self) -> None:
        """End it as a power cut would."""
        self._end(signal.SIGKILL)

    def stop(self) -> None:
        """Ask it to end, and insist after a while."""
        self._end(signal.SIGTERM)

    def pause(self) -> None:
        """Stall it: connections stay, answers do not come."""
        self._tell_family(signal.SIGSTOP)

    def resume(self) -> None:
        """Let a stalled server go on."""
        self._tell_family(signal.SIGCONT)

    def _tell_family(self, number: signal.Signals) -> None:
        if self._process is None or self._process.poll() is not None:
            return
        for pid in self._family():
            with suppress(ProcessLookupError):
                os.kill(pid, number)

    def _family(self) -> list[int]:
        # PostgreSQL has a process, and a process group, for each connection.
        family = [self.pid]
        for name in os.listdir("/proc"):
            if name.isdigit():
                try:
                    with open(f"/proc/{name}/stat") as stat:
                        parent = int(stat.read().rpartition(")")[2].split()[1])
                except (OSError, ValueError):
                    continue
                if parent == self.pid:
                    family.append(int(name))
        return family

    def _end(self, number: signal.Signals) -> None:
        process = self._process
        if process is None or process.poll() is not None:
            return
        self.resume()
        process.send_signal(number)
        try:
            process.wait(15)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait(15)

    def _tail(self) -> str:
        with open(os.path.join(self._directory, "output"), "rb") as output:
            return output.read()[-600:].decode(errors="replace").strip()


@contextmanager
def running(name: str, *, durable: bool = False, tls: Certificates | None = None) -> Iterator[Engine]:
    """Run an engine by its name in ENGINES, and remove it with its data at the end.

    Args:
        durable: an acknowledged write is on the disk. Otherwise the last second may be lost.
        tls: what it encrypts its connections with; its URL verifies that. There is no Unix socket then.

    Raises:
        Missing: it cannot be had here.
    """
    with tempfile.TemporaryDirectory(prefix=f"mangonel-{name}-", ignore_cleanup_errors=True) as directory:
        engine = ENGINES[name](directory, durable, tls)
        try:
            if tls is not None:
                engine.unix_url = ""
            engine.start()
            yield engine
        finally:
            engine.kill()


def _redis(directory: str, durable: bool, tls: Certificates | None) -> Engine:
    program, port = find_program("redis-server"), _free_port()
    command = [
        program,
        "--port",
        "0" if tls else str(port),
        "--bind",
        "127.0.0.1",
        "--dir",
        directory,
        "--save",
        "",
    ]
    command += ["--appendonly", "yes", "--appendfsync", "always" if durable else "everysec"]
    command += ["--unixsocket", f"{directory}/socket"]
    url = f"redis://127.0.0.1:{port}/0"
    if tls is not None:
        command += ["--tls-port", str(port), "--tls-auth-clients", "no", "--tls-ca-cert-file", str(tls.ca)]
        command += ["--tls-cert-file", str(tls.certificate), "--tls-key-file", str(tls.key)]
        url = f"rediss://127.0.0.1:{port}/0?tlsCAFile={quote(str(tls.ca))}"
    engine = Engine("redis", url, port, command, directory, None, lambda: _accepts(port))
    engine.unix_url = f"unix://{directory}/socket"
    return engine


def _memcached(directory: str, durable: bool, tls: Certificates | None) -> Engine:
    program, port = find_program("memcached"), _free_port()
    command = [program, "-p", str(port), "-l", "127.0.0.1", "-c", "2048", "-m", "256"]
    if os.geteuid() == 0:
        command += ["-u", UNPRIVILEGED]
    url = f"memcached://127.0.0.1:{port}"
    if tls is not None:
        told = subprocess.run([program, "-h"], capture_output=True, timeout=START_TIMEOUT, check=False)
        if b"--enable-ssl" not in told.stdout:
            raise Missing(f"{program} was built without TLS; Debian's memcached has it")
        command += ["-Z", "-o", f"ssl_chain_cert={tls.certificate},ssl_key={tls.key}"]
        url += f"?tls=1&tlsCAFile={quote(str(tls.ca))}"
    return Engine("memcached", url, port, command, directory, None, lambda: _accepts(port))


def _mysql(directory: str, durable: bool, tls: Certificates | None) -> Engine:
    install, program, port = find_program("mariadb-install-db"), find_program("mariadbd"), _free_port()
    data, socket_path = os.path.join(directory, "data"), os.path.join(directory, "socket")
    user = [f"--user={_user_name()}"] if os.geteuid() == 0 else []
    make = [install, "--no-defaults", f"--datadir={data}", "--auth-root-authentication-method=normal"]
    _run([*make, "--skip-test-db", *user])
    command = [
        program,
        "--no-defaults",
        f"--datadir={data}",
        f"--socket={socket_path}",
        f"--port={port}",
        *user,
    ]
    command += ["--bind-address=127.0.0.1", "--max-connections=400", "--skip-name-resolve"]
    command += ["--log-bin=binlog", "--sync-binlog=1", "--server-id=1"] if durable else ["--skip-log-bin"]
    command += [f"--innodb-flush-log-at-trx-commit={1 if durable else 2}", "--innodb-buffer-pool-size=64M"]
    url = f"mysql://root@127.0.0.1:{port}/mysql"
    engine = Engine("mysql", url, port, command, directory, None, lambda: _greets(port))
    engine.unix_url = f"{url}?socket={socket_path}"
    if tls is not None:
        command += [f"--ssl-cert={tls.certificate}", f"--ssl-key={tls.key}", "--require-secure-transport=ON"]
        engine.url += f"?tls=1&tlsCAFile={quote(str(tls.ca))}"
    return engine


def _postgresql(directory: str, durable: bool, tls: Certificates | None) -> Engine:
    initdb, port = find_program("initdb"), _free_port()
    # A wrapper on PATH may point elsewhere; the two must be of one version.
    program = os.path.join(os.path.dirname(os.path.realpath(initdb)), "postgres")
    data = os.path.join(directory, "data")
    user = UNPRIVILEGED if os.geteuid() == 0 else None
    if user:
        shutil.chown(directory, user)
        os.chmod(directory, 0o755)
    _run([initdb, "-D", data, "-U", "postgres", "-A", "trust", "-E", "UTF8", "--locale=C", "--no-sync"], user)
    command = [program, "-D", data, "-p", str(port), "-k", directory, "-h", "127.0.0.1"]
    for setting in ("max_connections=200", f"synchronous_commit={'on' if durable else 'off'}", "jit=off"):
        command += ["-c", setting]
    url = f"postgresql://postgres@127.0.0.1:{port}/postgres"
    if tls is not None:
        own = [shutil.copy(path, directory) for path in (tls.certificate, tls.key)]
        for path in own:  # it takes no key that another user may read
            os.chmod(path, 0o600)
            if user:
                shutil.chown(path, user)
        for setting in ("ssl=on", f"ssl_cert_file={own[0]}", f"ssl_key_file={own[1]}"):
            command += ["-c", setting]
        url += f"?sslmode=verify-full&sslrootcert={quote(str(tls.ca))}"
    return Engine("postgresql", url, port, command, directory, user, lambda: _speaks_postgres(port))


ENGINES: dict[str, Callable[[str, bool, Certificates | None], Engine]] = {
    "redis": _redis,
    "memcached": _memcached,
    "mysql": _mysql,
    "postgresql": _postgresql,
}


def _look_for(name: str) -> str | None:
    found = shutil.which(name)
    if found is None:
        for folder in FOLDERS:
            for candidate in sorted(glob.glob(os.path.join(folder, name)), reverse=True):
                if os.access(candidate, os.X_OK):
                    return candidate
    return found


def _install(package: str) -> str:
    """Install a Debian package; return what went wrong, "" for nothing."""
    apt = shutil.which("apt-get")
    if apt is None:
        return "this system has no apt-get"
    prefix: list[str] = []
    if os.geteuid() != 0:
        sudo = shutil.which("sudo")
        if sudo is None or subprocess.run([sudo, "-n", "true"], capture_output=True, check=False).returncode:
            return "this user is not root and may not sudo without a password"
        prefix = [sudo, "-n", "-E"]
    # RUNLEVEL=1: the package's own service, on its usual port, need not start.
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive", "RUNLEVEL": "1"}
    install = [*prefix, apt, "install", "-y", "-qq", "--no-install-recommends", package]
    with open(os.path.join(tempfile.gettempdir(), "mangonel-install.lock"), "a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        for command in (install, [*prefix, apt, "update", "-qq"], install):
            try:
                result = subprocess.run(
                    command, env=environment, capture_output=True, timeout=INSTALL_TIMEOUT, check=False
                )
            except subprocess.TimeoutExpired:
                return f"{' '.join(command)} took more than {INSTALL_TIMEOUT} s"
            if result.returncode == 0 and command is install:
                return ""
    return result.stderr[-300:].decode(errors="replace").strip()


def _run(command: list[str], user: str | None = None) -> None:
    keywords: dict[str, Any] = {"user": user, "group": "nogroup"} if user else {}
    result = subprocess.run(
        command, capture_output=True, timeout=START_TIMEOUT, check=False, cwd="/", **keywords
    )
    if result.returncode:
        raise Missing(
            f"{command[0]} failed: {(result.stderr or result.stdout)[-600:].decode(errors='replace')}"
        )


def _user_name() -> str:
    import pwd

    return pwd.getpwuid(os.geteuid()).pw_name


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def _accepts(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), 1).close()
    except OSError:
        return False
    return True


def _greets(port: int) -> bool:
    """Whether a server sends something by itself, as MySQL does once it is up."""
    try:
        with socket.create_connection(("127.0.0.1", port), 1) as connection:
            connection.settimeout(2)
            return bool(connection.recv(1))
    except OSError:
        return False


def _speaks_postgres(port: int) -> bool:
    """Whether a start-up message is answered with something other than "the database system is starting up"."""
    body = b"\0\3\0\0user\0postgres\0database\0postgres\0\0"
    try:
        with socket.create_connection(("127.0.0.1", port), 1) as connection:
            connection.settimeout(2)
            connection.sendall((len(body) + 4).to_bytes(4, "big") + body)
            return connection.recv(1) == b"R"
    except OSError:
        return False
