"""Websessions as one file each, in 256 folders; several processes on one machine may share them.

An insert or a write locks its folder, writes a temporary file beside the record and renames it. A file's modification
time is its expiry, so a purge reads no contents. On an event loop a small thread pool does the work.
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from itertools import count
from typing import Any, TypeVar

from mangonel.websessions.errors import UsageError
from mangonel.websessions.record import (
    Record,
    expires_of,
    pack_record,
    stored_record,
    version_of,
    with_expires,
)
from mangonel.websessions.stores.urls import StoreURL, flag

try:
    import fcntl
except ImportError as error:  # pragma: no cover
    raise ImportError("websessions in files need flock, which this system lacks; use sqlite:") from error

__all__ = ["TIMEOUT", "BlockingDirectoryStore", "DirectoryStore", "InThreads", "locked_file"]

T = TypeVar("T")

THREADS = 8
TIMEOUT = 5.0
SUFFIX = ".websession"


class BlockingDirectoryStore:
    """Websessions in a folder.

    Args:
        path: path of the folder; created if missing, readable by its owner only.
        durable: wait for the disk at every write.
    """

    def __init__(self, path: str, *, durable: bool = False) -> None:
        self.path = os.path.abspath(path)
        self._durable = durable
        self._serial = count()
        self._known: set[str] = set()

    def get(self, key: bytes) -> Record | None:
        """Return the record, which may have expired."""
        return stored_record(key, _read(self._file(key)))

    def put(self, record: Record, expected: int) -> bool:
        """Write if the stored version is `expected`."""
        name = self._file(record.key)
        with self._locked(name):
            if version_of(_read(name) or b"") != expected:
                return False
            self._write(name, pack_record(record))
        return True

    def touch(self, key: bytes, expires: float) -> bool:
        """Change `expires`."""
        name = self._file(key)
        with self._locked(name):
            stored = _read(name)
            if stored is None:
                return False
            self._write(name, with_expires(stored, expires))
        return True

    def delete(self, *keys: bytes) -> int:
        """Remove records."""
        removed = 0
        for key in keys:
            name = self._file(key)
            with self._locked(name):
                removed += _remove(name)
                if self._durable:
                    _sync_folder(os.path.dirname(name))
        return removed

    def purge(self, now: float, limit: int = 1000) -> int:
        """Remove expired records, by the files' times."""
        removed = 0
        for entry in self._entries():
            try:
                if entry.stat().st_mtime >= now:
                    continue
            except FileNotFoundError:
                continue
            with self._locked(entry.path):
                # Checked again under the lock: a touch may have been faster.
                stored = _read(entry.path)
                if stored is not None and expires_of(stored) < now:
                    removed += _remove(entry.path)
            if removed >= limit:
                break
        return removed

    def stats(self, now: float) -> dict[str, int]:
        """Return counts."""
        found = {"records": 0, "expired": 0, "bytes": 0}
        for entry in self._entries():
            try:
                status = entry.stat()
            except FileNotFoundError:
                continue
            found["records"] += 1
            found["expired"] += status.st_mtime < now
            found["bytes"] += status.st_size
        return found

    def setup(self) -> None:
        """Create the folders."""
        for shard in range(256):
            os.makedirs(os.path.join(self.path, f"{shard:02x}"), mode=0o700, exist_ok=True)

    def close(self) -> None:
        """Do nothing: no file stays open."""

    def _file(self, key: bytes) -> str:
        name = key.hex()
        return f"{self.path}/{name[:2]}/{name}{SUFFIX}"

    def _entries(self) -> Iterator[os.DirEntry[str]]:
        for shard in range(256):
            try:
                with os.scandir(os.path.join(self.path, f"{shard:02x}")) as entries:
                    yield from (entry for entry in entries if entry.name.endswith(SUFFIX))
            except FileNotFoundError:
                continue

    def _locked(self, name: str) -> AbstractContextManager[None]:
        folder = os.path.dirname(name)
        if folder not in self._known:
            os.makedirs(folder, mode=0o700, exist_ok=True)
            self._known.add(folder)
        return locked_file(f"{folder}/.lock")

    def _write(self, name: str, data: bytes) -> None:
        # Beside the record, since a rename cannot cross file systems.
        temporary = f"{name}.{os.getpid()}-{threading.get_ident()}-{next(self._serial)}.tmp"
        file = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        try:
            # On a disk that is nearly full, a part is written without an error.
            left = memoryview(data)
            while left:
                left = left[os.write(file, left) :]
            expires = expires_of(data)
            os.utime(file, (expires, expires))
            if self._durable:
                os.fsync(file)
        except BaseException:
            os.close(file)
            _remove(temporary)
            raise
        os.close(file)
        os.replace(temporary, name)
        if self._durable:
            _sync_folder(os.path.dirname(name))


@contextmanager
def locked_file(path: str) -> Iterator[None]:
    """Hold the lock on a file, which is created if missing; other processes and threads wait.

    Args:
        path: path of the file.

    Example:
        >>> with locked_file("counter.lock"):
        ...     print("alone")
        alone
    """
    file = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
    finally:
        os.close(file)


def _sync_folder(path: str) -> None:
    folder = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def _read(name: str) -> bytes | None:
    try:
        with open(name, "rb") as file:
            return file.read()
    except FileNotFoundError:
        return None


def _remove(name: str) -> int:
    try:
        os.unlink(name)
    except FileNotFoundError:
        return 0
    return 1


class InThreads:
    """A blocking store on an event loop, in its own thread pool.

    A call that takes longer than `timeout` seconds fails; its thread continues until the disk answers.
    """

    def __init__(self, blocking: Any, threads: int = THREADS, timeout: float = TIMEOUT) -> None:
        self.blocking = blocking
        self._timeout = timeout
        self._pool = ThreadPoolExecutor(threads, "websessions")

    async def get(self, key: bytes) -> Record | None:
        """As `Store.get`."""
        return await self._run(self.blocking.get, key)

    async def put(self, record: Record, expected: int) -> bool:
        """As `Store.put`."""
        return await self._run(self.blocking.put, record, expected)

    async def touch(self, key: bytes, expires: float) -> bool:
        """As `Store.touch`."""
        return await self._run(self.blocking.touch, key, expires)

    async def delete(self, *keys: bytes) -> int:
        """As `Store.delete`."""
        return await self._run(self.blocking.delete, *keys)

    async def purge(self, now: float, limit: int = 1000) -> int:
        """As `Purges.purge`."""
        return await self._run(self.blocking.purge, now, limit)

    async def stats(self, now: float) -> dict[str, int]:
        """As `Stats.stats`."""
        return await self._run(self.blocking.stats, now)

    async def setup(self) -> None:
        """As `Manages.setup`."""
        await self._run(self.blocking.setup)

    async def aclose(self) -> None:
        """End the idle threads."""
        self._pool.shutdown(wait=False)

    async def _run(self, call: Callable[..., T], *arguments: Any) -> T:
        future = asyncio.get_running_loop().run_in_executor(self._pool, call, *arguments)
        # Kept in a name, as in _faces/aio.py.
        limit = asyncio.timeout(self._timeout)
        async with limit:
            return await future


class DirectoryStore(InThreads):
    """Websessions in a folder, on an event loop.

    Args:
        path, durable: as `BlockingDirectoryStore`.
        threads: how many calls may wait for the disk at once.
        timeout: seconds that a call may take.
    """

    def __init__(
        self, path: str, *, durable: bool = False, threads: int = THREADS, timeout: float = TIMEOUT
    ) -> None:
        super().__init__(BlockingDirectoryStore(path, durable=durable), threads, timeout)


def from_url(url: StoreURL) -> DirectoryStore:
    """Return a store for `files:///var/lib/app/sessions?durable=…&threads=…&timeout=…`; `dir:` is the same."""
    path, own = _parts(url)
    return DirectoryStore(path, **own)


def blocking_from_url(url: StoreURL) -> BlockingDirectoryStore:
    """Return the same for threads."""
    path, own = _parts(url)
    return BlockingDirectoryStore(path, durable=own["durable"])


def _parts(url: StoreURL) -> tuple[str, dict[str, Any]]:
    own = {
        "durable": url.take("durable", False, flag),
        "threads": url.take("threads", THREADS, int),
        "timeout": url.take("timeout", TIMEOUT, float),
    }
    url.finish()
    if url.netloc or url.path in ("", "/"):
        raise UsageError(
            f"expected a folder's absolute path, as files:///var/lib/app/sessions, got {url.netloc}{url.path}"
        )
    return url.path, own
