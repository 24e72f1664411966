"""The engines that can store websessions, each on a free loopback port with temporary data.

MongoDB is missing here: `mangonel.server` runs it.
"""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import quote

from mangonel.engines.certificates import Certificates
from mangonel.engines.engine import PORT, START_TIMEOUT, Engine, accepts
from mangonel.engines.programs import Missing, find_program

# Databases that refuse to run as root run as this user.
UNPRIVILEGED = "nobody"


@contextmanager
def running(name: str, *, durable: bool = False, tls: Certificates | None = None) -> Iterator[Engine]:
    """Run an engine by its name in ENGINES; stop it and remove its data at the end.

    Args:
        durable: acknowledged writes are flushed to disk. Otherwise the last second may be lost.
        tls: certificates for TLS; the URL verifies them. The engine then has no Unix socket.

    Raises:
        Missing: the engine is not available.
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
    program = find_program("redis-server")
    command = [
        program,
        "--port",
        "0" if tls else PORT,
        "--bind",
        "127.0.0.1",
        "--dir",
        directory,
        "--save",
        "",
    ]
    command += ["--appendonly", "yes", "--appendfsync", "always" if durable else "everysec"]
    command += ["--unixsocket", f"{directory}/socket"]
    url = f"redis://127.0.0.1:{PORT}/0"
    if tls is not None:
        command += ["--tls-port", PORT, "--tls-auth-clients", "no", "--tls-ca-cert-file", str(tls.ca)]
        command += ["--tls-cert-file", str(tls.certificate), "--tls-key-file", str(tls.key)]
        url = f"rediss://127.0.0.1:{PORT}/0?tlsCAFile={quote(str(tls.ca))}"
    engine = Engine("redis", url, command, directory, None, accepts)
    engine.unix_url = f"unix://{directory}/socket"
    return engine


def _memcached(directory: str, durable: bool, tls: Certificates | None) -> Engine:
    program = find_program("memcached")
    command = [program, "-p", PORT, "-l", "127.0.0.1", "-c", "2048", "-m", "256"]
    if os.geteuid() == 0:
        command += ["-u", UNPRIVILEGED]
    url = f"memcached://127.0.0.1:{PORT}"
    if tls is not None:
        told = subprocess.run([program, "-h"], capture_output=True, timeout=START_TIMEOUT, check=False)
        if b"--enable-ssl" not in told.stdout:
            raise Missing(f"{program} was built without TLS; Debian's memcached has it")
        command += ["-Z", "-o", f"ssl_chain_cert={tls.certificate},ssl_key={tls.key}"]
        url += f"?tls=1&tlsCAFile={quote(str(tls.ca))}"
    return Engine("memcached", url, command, directory, None, accepts)


def _mysql(directory: str, durable: bool, tls: Certificates | None) -> Engine:
    install, program = find_program("mariadb-install-db"), find_program("mariadbd")
    data, socket_path = os.path.join(directory, "data"), os.path.join(directory, "socket")
    # A starting server removes files that look like temporary tables, even another server's, so each needs its own
    # folder.
    temporary = os.path.join(directory, "tmp")
    os.mkdir(temporary, 0o700)
    user = [f"--user={_user_name()}"] if os.geteuid() == 0 else []
    make = [install, "--no-defaults", f"--datadir={data}", f"--tmpdir={temporary}"]
    make += ["--auth-root-authentication-method=normal"]
    _run([*make, "--skip-test-db", *user])
    command = [
        program,
        "--no-defaults",
        f"--datadir={data}",
        f"--tmpdir={temporary}",
        f"--socket={socket_path}",
        f"--port={PORT}",
        *user,
    ]
    command += ["--bind-address=127.0.0.1", "--max-connections=400", "--skip-name-resolve"]
    command += ["--log-bin=binlog", "--sync-binlog=1", "--server-id=1"] if durable else ["--skip-log-bin"]
    command += [f"--innodb-flush-log-at-trx-commit={1 if durable else 2}", "--innodb-buffer-pool-size=64M"]
    url = f"mysql://root@127.0.0.1:{PORT}/mysql"
    engine = Engine("mysql", url, command, directory, None, _greets)
    engine.unix_url = f"{url}?socket={socket_path}"
    if tls is not None:
        command += [f"--ssl-cert={tls.certificate}", f"--ssl-key={tls.key}", "--require-secure-transport=ON"]
        engine.url += f"?tls=1&tlsCAFile={quote(str(tls.ca))}"
    return engine


def _postgresql(directory: str, durable: bool, tls: Certificates | None) -> Engine:
    initdb = find_program("initdb")
    # A wrapper on PATH may point elsewhere; both programs must have the same version.
    program = os.path.join(os.path.dirname(os.path.realpath(initdb)), "postgres")
    data = os.path.join(directory, "data")
    user = UNPRIVILEGED if os.geteuid() == 0 else None
    if user:
        shutil.chown(directory, user)
        os.chmod(directory, 0o755)
    _run([initdb, "-D", data, "-U", "postgres", "-A", "trust", "-E", "UTF8", "--locale=C", "--no-sync"], user)
    command = [program, "-D", data, "-p", PORT, "-k", directory, "-h", "127.0.0.1"]
    for setting in (
        "max_connections=200",
        f"synchronous_commit={'on' if durable else 'off'}",
        "jit=off",
        "dynamic_shared_memory_type=mmap",  # not in /dev/shm: files there outlive a killed server
    ):
        command += ["-c", setting]
    url = f"postgresql://postgres@127.0.0.1:{PORT}/postgres"
    if tls is not None:
        own = [shutil.copy(path, directory) for path in (tls.certificate, tls.key)]
        for path in own:  # it refuses a key that another user may read
            os.chmod(path, 0o600)
            if user:
                shutil.chown(path, user)
        for setting in ("ssl=on", f"ssl_cert_file={own[0]}", f"ssl_key_file={own[1]}"):
            command += ["-c", setting]
        url += f"?sslmode=verify-full&sslrootcert={quote(str(tls.ca))}"
    return Engine("postgresql", url, command, directory, user, _speaks_postgres)


ENGINES: dict[str, Callable[[str, bool, Certificates | None], Engine]] = {
    "redis": _redis,
    "memcached": _memcached,
    "mysql": _mysql,
    "postgresql": _postgresql,
}


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


def _greets(port: int) -> bool:
    """Whether a server sends a greeting, as MySQL does once it is up."""
    try:
        with socket.create_connection(("127.0.0.1", port), 1) as connection:
            connection.settimeout(2)
            return bool(connection.recv(1))
    except OSError:
        return False


def _speaks_postgres(port: int) -> bool:
    """Whether the response to a start-up message is anything but "the database system is starting up"."""
    body = b"\0\3\0\0user\0postgres\0database\0postgres\0\0"
    try:
        with socket.create_connection(("127.0.0.1", port), 1) as connection:
            connection.settimeout(2)
            connection.sendall((len(body) + 4).to_bytes(4, "big") + body)
            return connection.recv(1) == b"R"
    except OSError:
        return False
