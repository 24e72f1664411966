"""mongocryptd: the process of MongoDB Enterprise that marks the fields of a command to encrypt.

It is started at first use, by an intermediate process so that it outlives this one. It exits by itself when idle.
Spec: client-side-encryption ("mongocryptd").
"""

from __future__ import annotations

import _thread
import os
import shutil
import subprocess
import sys
from typing import TYPE_CHECKING, Any

from mangonel import _core
from mangonel._faces import single_request
from mangonel._shared.operation import build_operation
from mangonel.bson.raw_bson import RawBSONDocument
from mangonel.encryption._machine import VAULT_CODEC
from mangonel.errors import ServerSelectionTimeoutError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from mangonel._shared.client.client import _MongoClient

# Milliseconds to wait for a process that was started here, and for one that another program may have started.
_STARTING_MS = 10_000
_RUNNING_MS = 3_000

# Seconds for the intermediate process, which only starts mongocryptd.
_SPAWN_SECONDS = 10

_RAW = _core.Codec(VAULT_CODEC)

# A new session, so that signals for this process's group do not reach it.
_STARTER = """
import os, subprocess, sys
subprocess.Popen(sys.argv[1:], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                 start_new_session=True)
os._exit(0)
"""


class Mongocryptd:
    """Marks commands, over its own connections.

    Args:
        client_class: the client class of the face.
        uri: the address of mongocryptd; its `serverSelectionTimeoutMS` limits the wait for it.
        command: the program and its arguments. None: never start it.
    """

    def __init__(
        self, client_class: type[_MongoClient[Any]], uri: str, command: Sequence[str] | None
    ) -> None:
        self._client_class = client_class
        self._uri = uri
        self._command = command
        self._is_startable = command is not None and shutil.which(command[0]) is not None
        self._is_started = False
        self._client: _MongoClient[Any] | None = None
        self._lock = _thread.allocate_lock()

    async def mark_flow(self, database: str, command: bytes) -> bytes:
        """Return the reply to `command`: the command's fields, with those to encrypt marked.

        Raises:
            ServerSelectionTimeoutError: mongocryptd is not running; the message names the remedy.
            OperationFailure: mongocryptd refuses the command or the schema.
        """
        client = self._ready()
        if not self._is_started:
            await self._start_flow(client)
        try:
            return await self._run_flow(client, database, command)
        except ServerSelectionTimeoutError as error:
            if not self._is_startable:
                raise self._absence(error) from error
        # mongocryptd may have exited because it was idle for too long.
        await self._start_flow(client)
        try:
            return await self._run_flow(client, database, command)
        except ServerSelectionTimeoutError as error:
            raise self._absence(error) from error

    async def _run_flow(self, client: _MongoClient[Any], database: str, command: bytes) -> bytes:
        operation = build_operation(
            RawBSONDocument(command),
            database=database,
            codec=_RAW,
            kind=_core.KIND_READ_ONCE,
            reading=_core.READ_RAW,
            session=False,
        )
        return await client._port.arun(operation)

    async def _start_flow(self, client: _MongoClient[Any]) -> None:
        self._is_started = True
        if not self._is_startable or self._command is None:
            return
        command, port = self._command, client._port
        await port.call(
            single_request.off_loop if port.is_async else single_request.call, lambda: _spawn(command)
        )

    def _ready(self) -> _MongoClient[Any]:
        with self._lock:
            if self._client is None:
                options: dict[str, Any] = {"connect": False}
                # The URI takes precedence.
                if "serverselectiontimeoutms" not in self._uri.lower():
                    is_awaited = self._is_startable or self._command is None
                    options["serverSelectionTimeoutMS"] = _STARTING_MS if is_awaited else _RUNNING_MS
                self._client = self._client_class(self._uri, **options)
            return self._client

    def _absence(self, error: ServerSelectionTimeoutError) -> ServerSelectionTimeoutError:
        found = ""
        if self._command is not None:
            found = (
                f" (started {self._command[0]})"
                if self._is_startable
                else f", nor a program {self._command[0]}"
            )
        return ServerSelectionTimeoutError(
            f"automatic encryption needs MongoDB's query analysis, got no mongocryptd at {self._uri}{found}; set "
            "crypt_shared_lib_path to the library crypt_shared, or mongocryptd_spawn_path to a mongocryptd, or encrypt "
            f"with ClientEncryption and set bypass_query_analysis=True ({error})",
            error.errors,
        )

    def close(self) -> None:
        """Close the connections; the process exits after a minute without work."""
        with self._lock:
            client, self._client = self._client, None
        if client is not None:
            client._core.close()
            client._port.close()


def spawn_command(path: str, arguments: Sequence[str] | None) -> list[str]:
    """Return the command that starts mongocryptd; unless the arguments say otherwise, it exits after an idle minute.

    Raises:
        TypeError: the arguments are not a list.
    """
    if arguments is None:
        arguments = []
    if not isinstance(arguments, list):
        raise TypeError(f"mongocryptd_spawn_args must be a list, not {type(arguments)}")
    if not any("idleShutdownTimeoutSecs" in argument for argument in arguments):
        arguments = [*arguments, "--idleShutdownTimeoutSecs=60"]
    return [path or "mongocryptd", *arguments]


def _spawn(command: Sequence[str]) -> None:
    # Started by an intermediate process that exits at once, so that this process need not reap it.
    interpreter = [sys.executable, "-S", "-E", "-c", _STARTER]
    null = os.open(os.devnull, os.O_RDWR)
    try:
        subprocess.run(
            [*interpreter, *command],
            timeout=_SPAWN_SECONDS,
            check=False,
            stdin=null,
            stdout=null,
            stderr=null,
        )
    finally:
        os.close(null)
