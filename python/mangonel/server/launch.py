"""`start`: mongod's options, how mongods become a deployment, and the record beside persistent data."""

from __future__ import annotations

import json
import os
import secrets
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from mangonel.server import replica_set as sets
from mangonel.server.errors import ServerError
from mangonel.server.find import find_mongod, mongod_version
from mangonel.server.process import HOST, Process, Supervisor, free_port
from mangonel.server.server import Member, Server, credentials_of
from mangonel.server.tls import tls_arguments, tls_context, tls_options, tls_uri_options
from mangonel.server.wire import CommandError

__all__ = ["start"]

RECORD = "mangonel.json"  # file in kept data with the deployment's arguments and ports
KEY_FILE = "keyfile"
PORT_ATTEMPTS = 10
CACHE_GB = "0.25"  # the minimum that mongod accepts; several servers share 2 GiB
OPLOG_MB = "256"
# A small journal that grows on demand saves 290 MB a member for temporary data.
SMALL_JOURNAL = ["--wiredTigerEngineConfigString", "log=(file_max=32MB,prealloc=false)"]
PARAMETERS = {"diagnosticDataCollectionEnabled": False}
# A clean shutdown would otherwise wait up to 15 s for clients to leave and a secondary to catch up.
PARAMETERS_5_0 = {"shutdownTimeoutMillisForSignaledShutdown": 100}


def start(
    replica_set: int = 0,
    dbpath: str | os.PathLike[str] | None = None,
    port: int = 0,
    auth: tuple[str, str] | None = None,
    tls: Any = None,
    set_parameters: Mapping[str, Any] | None = None,
    *,
    mongod: str | os.PathLike[str] | None = None,
    arguments: Sequence[str] = (),
    settings: Mapping[str, Any] | None = None,
    timeout: float = 60.0,
) -> Server:
    """Start mongod on loopback and return once it accepts writes. It never outlives this process.

    Args:
        replica_set: number of members; 0 starts a standalone.
        dbpath: directory of the data, created if missing and kept. None: temporary, removed at the end.
        port: port of the first member; the others take the following ones. 0: free ports, or the recorded ones of kept
            data.
        auth: name and password of a user with all rights; enables access control.
        tls: mapping or object with mongod's net.tls options (certificateKeyFile, CAFile, …).
        set_parameters: server parameters, such as {"enableTestCommands": 1}.
        mongod: the program. None: MANGONEL_MONGOD, then PATH, then the wheel of mangonel[server].
        arguments: further command-line options for each mongod; "--unixSocketPrefix" gives it a Unix socket.
        settings: replica set settings that override ours (electionTimeoutMillis 2000, heartbeatIntervalMillis 500).
        timeout: seconds for the whole start.

    Raises:
        MongodNotFound: no mongod can run here; nothing was started.
        ServerError: it did not start; the message ends with its last log lines, and no process is left running.

    Example:
        >>> with start(replica_set=1) as deployment:
        ...     with MongoClient(deployment.uri) as own:
        ...         own.admin.command("ping")["ok"]
        1.0
    """
    if not isinstance(replica_set, int) or not 0 <= replica_set <= 50:
        raise ValueError(f"expected replica_set from 0 (a standalone) to 50 members, got {replica_set!r}")
    last = 65_535 - max(replica_set - 1, 0)
    if not isinstance(port, int) or not 0 <= port <= last:
        raise ValueError(f"expected a port from 0 (any free one) to {last}, got {port!r}")
    if sys.platform == "win32":
        raise ServerError("expected Linux or macOS, got Windows: start mongod by hand there, and use its URI")
    deadline = time.monotonic() + timeout
    path = find_mongod(mongod)
    version = mongod_version(path)
    options = tls_options(tls) if tls is not None else {}
    if dbpath is None:
        directory = tempfile.mkdtemp(prefix="mangonel-server-")
    else:
        directory = os.path.abspath(os.path.expanduser(os.fspath(dbpath)))
        os.makedirs(directory, exist_ok=True)
    is_temporary = dbpath is None
    record = _read_record(directory, replica_set)
    is_made = bool(record) and record.get("is_made", True)
    ports = [port + number for number in range(replica_set or 1)] if port else record.get("ports")
    if replica_set and record and ports != record["ports"]:
        raise ServerError(
            f"{directory} holds the data of a replica set whose members have the ports {record['ports']}; expected "
            f"these or none, got {ports}"
        )

    server = Server(Supervisor(directory if is_temporary else None), directory, is_temporary=is_temporary)
    try:
        server.version = version
        base = [path, *_arguments(version, replica_set, auth, options, set_parameters), *arguments]
        if is_temporary and {"--storageEngine", SMALL_JOURNAL[0]}.isdisjoint(arguments):
            base += SMALL_JOURNAL
        if "--unixSocketPrefix" in arguments:
            base.remove("--nounixsocket")
        _start_members(server, base, replica_set, ports, deadline, key=bool(auth and replica_set))
        server._credentials = credentials_of(auth)
        server._uri_options = [f"replicaSet={sets.NAME}"] if replica_set else []
        if options:
            server._uri_options += tls_uri_options(options)
        for member in server.members:
            member._credentials = server._credentials
            if options:
                member._uri_options = tls_uri_options(options)
                member._tls = tls_context(options)
        used = [member.port for member in server.members]
        if not is_temporary and not is_made:
            # An interrupted start may have initiated the set, whose configuration names these ports.
            _write_record(directory, replica_set, used, is_made=False)
        primary = _become_deployment(server, replica_set, is_made, settings, deadline)
        if auth or (replica_set > 1 and not is_made):
            _write_to_all(server, primary, auth, deadline)
        if not is_temporary:
            _write_record(directory, replica_set, used, is_made=True)
    except BaseException:
        server.stop()
        raise
    return server


def _arguments(
    version: tuple[int, ...],
    replica_set: int,
    auth: tuple[str, str] | None,
    tls: Mapping[str, Any],
    set_parameters: Mapping[str, Any] | None,
) -> list[str]:
    result = ["--bind_ip", HOST, "--nounixsocket", "--quiet", "--logappend"]
    result += ["--wiredTigerCacheSizeGB", CACHE_GB]
    if replica_set:
        result += ["--replSet", sets.NAME, "--oplogSize", OPLOG_MB]
    elif auth:
        result += ["--auth"]
    if tls:
        result += tls_arguments(tls)
        if replica_set and "allowInvalidHostnames" not in tls:
            # Members connect to each other by address, and a test's certificate often names localhost only.
            result += ["--tlsAllowInvalidHostnames"]
    parameters = {**PARAMETERS, **(PARAMETERS_5_0 if version >= (5,) else {}), **(set_parameters or {})}
    for name, value in parameters.items():
        result += ["--setParameter", f"{name}={value if isinstance(value, str) else json.dumps(value)}"]
    return result


def _start_members(
    server: Server, base: list[str], replica_set: int, ports: list[int] | None, deadline: float, *, key: bool
) -> None:
    secret = secrets.token_urlsafe(48).replace("_", "a").replace("-", "b")
    for number in range(replica_set or 1):
        home = os.path.join(server.dbpath, f"member-{number}") if replica_set else server.dbpath
        os.makedirs(home, exist_ok=True)
        command = [*base, "--dbpath", home]
        if key:
            command += ["--keyFile", _key_file(home, secret)]
        process = Process(server._supervisor, number, command, home)
        server.members.append(Member(process, ports[number] if ports else free_port(), [], ""))
        process.spawn(server.members[-1].port)
    for member in server.members:
        attempts = 1 if ports else PORT_ATTEMPTS
        while not member._process.wait_listening(deadline):
            attempts -= 1
            if not attempts:
                raise ServerError(f"cannot start member {member.number}: port {member.port} is taken")
            member.port = free_port()
            member._process.spawn(member.port)


def _become_deployment(
    server: Server,
    replica_set: int,
    is_made: bool,
    settings: Mapping[str, Any] | None,
    deadline: float,
) -> Member:
    first = server.members[0]
    if not replica_set:
        return first
    server.replica_set_name = sets.NAME
    if not is_made:
        ports = [member.port for member in server.members]
        sets.initiate(lambda command: first.run_command(command, timeout=30.0), ports, settings)

    def check() -> None:
        for member in server.members:
            if not member.is_running:
                raise ServerError(f"member {member.number} ended\n{member._process.log_tail()}")

    runs = [member.run_command for member in server.members]
    return server.members[sets.wait_for_members(runs, deadline, check)]


def _write_to_all(server: Server, primary: Member, auth: tuple[str, str] | None, deadline: float) -> None:
    while True:
        left = max(1.0, deadline - time.monotonic())
        try:
            # The server's own error comes first.
            run = partial(primary.run_command, timeout=left + 5)
            return sets.write_to_all(run, auth, len(server.members), left)
        except CommandError as error:
            # A machine at full load misses heartbeats, and the set elects another primary.
            if error.code not in sets.NOT_PRIMARY or time.monotonic() > deadline:
                raise
        primary = server.wait_for_primary(timeout=left)


def _key_file(home: str, secret: str) -> str:
    # One record per member, so that a member's directory holds everything it needs; kept data keeps its own record.
    path = os.path.join(home, KEY_FILE)
    if not os.path.exists(path):
        with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
            file.write(secret)
    return path


def has_record(directory: str) -> bool:
    """Return whether a folder holds the data of a deployment, whose ports are fixed."""
    return os.path.exists(os.path.join(os.path.expanduser(directory), RECORD))


def _read_record(directory: str, replica_set: int) -> dict[str, Any]:
    path = os.path.join(directory, RECORD)
    try:
        with open(path, encoding="utf-8") as file:
            text = file.read()
    except FileNotFoundError:
        return {}
    try:
        record: dict[str, Any] = json.loads(text)
        count = record["replica_set"]
        [int(port) for port in record["ports"]]
    except (ValueError, TypeError, KeyError):
        raise ServerError(
            f"expected members and ports of the data in {path}, got {text[:80]!r}; restore this file, or choose "
            "another dbpath"
        ) from None
    if count != replica_set:
        made = [count, replica_set]
        was, wanted = (f"a replica set of {count}" if count else "a standalone" for count in made)
        raise ServerError(f"{directory} holds the data of {was}; expected {wanted}: choose another dbpath")
    return record


def _write_record(directory: str, replica_set: int, ports: list[int], *, is_made: bool) -> None:
    """Replace the record in one step, so that none is ever cut short."""
    path = os.path.join(directory, RECORD)
    with open(f"{path}.new", "w", encoding="utf-8") as file:
        json.dump({"replica_set": replica_set, "ports": ports, "is_made": is_made}, file)
    os.replace(f"{path}.new", path)
