"""Websessions in one file: for development, and for compatibility with the fork.

Every write reads and writes the whole file under a lock, so the cost grows with the number of websessions. In
production use `sqlite:`, which is one file as well.
"""

from __future__ import annotations

import os
from contextlib import AbstractContextManager

import msgspec

from mangonel.websessions.errors import UsageError
from mangonel.websessions.record import (
    Record,
    expires_of,
    pack_record,
    stored_record,
    version_of,
    with_expires,
)
from mangonel.websessions.stores.directory import TIMEOUT, InThreads, locked_file
from mangonel.websessions.stores.urls import StoreURL

__all__ = ["BlockingSingleFileStore", "SingleFileStore"]

Contents = dict[bytes, bytes]

_decode = msgspec.msgpack.Decoder(Contents).decode
_encode = msgspec.msgpack.Encoder().encode

# A marker, so that no other file is mistaken for ours and overwritten.
MAGIC = b"mangonel websessions 1\n"


class BlockingSingleFileStore:
    """Websessions in one file.

    Args:
        path: path of the file; created if missing, readable by its owner only. A lock file is created beside it.
    """

    def __init__(self, path: str) -> None:
        self.path = os.path.abspath(path)

    def get(self, key: bytes) -> Record | None:
        """Return the record, which may have expired."""
        return stored_record(key, self._read().get(key))

    def put(self, record: Record, expected: int) -> bool:
        """Write if the stored version is `expected`."""
        with self._locked():
            contents = self._read()
            if version_of(contents.get(record.key, b"")) != expected:
                return False
            contents[record.key] = pack_record(record)
            self._write(contents)
        return True

    def touch(self, key: bytes, expires: float) -> bool:
        """Change `expires`."""
        with self._locked():
            contents = self._read()
            if key not in contents:
                return False
            contents[key] = with_expires(contents[key], expires)
            self._write(contents)
        return True

    def delete(self, *keys: bytes) -> int:
        """Remove records."""
        with self._locked():
            contents = self._read()
            removed = sum(contents.pop(key, None) is not None for key in keys)
            if removed:
                self._write(contents)
        return removed

    def find(self, user: str) -> list[Record]:
        """Return the user's records."""
        records = [self.get(key) for key in self._read()]
        return [record for record in records if record is not None and record.user == user]

    def purge(self, now: float, limit: int = 1000) -> int:
        """Remove expired records."""
        dead = [key for key, stored in self._read().items() if expires_of(stored) < now][:limit]
        return self.delete(*dead) if dead else 0

    def stats(self, now: float) -> dict[str, int]:
        """Return counts."""
        contents = self._read()
        return {
            "records": len(contents),
            "expired": sum(expires_of(stored) < now for stored in contents.values()),
            "bytes": sum(map(len, contents.values())),
        }

    def setup(self) -> None:
        """Create the file."""
        os.makedirs(os.path.dirname(self.path), mode=0o700, exist_ok=True)
        with self._locked():
            if not os.path.exists(self.path):
                self._write({})

    def close(self) -> None:
        """Do nothing: no file stays open."""

    def _read(self) -> Contents:
        try:
            with open(self.path, "rb") as file:
                raw = file.read()
        except FileNotFoundError:
            return {}
        if not raw.startswith(MAGIC):
            raise UsageError(f"{self.path} exists and holds no websessions; it was left alone")
        return _decode(raw[len(MAGIC) :])

    def _write(self, contents: Contents) -> None:
        temporary = f"{self.path}.tmp"  # one is enough: the lock is held
        file = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with open(file, "wb") as opened:
            opened.write(MAGIC + _encode(contents))
        os.replace(temporary, self.path)

    def _locked(self) -> AbstractContextManager[None]:
        return locked_file(f"{self.path}.lock")


class SingleFileStore(InThreads):
    """Websessions in one file, on an event loop.

    Args:
        path: path of the file.
        timeout: seconds that a call may take.
    """

    def __init__(self, path: str, *, timeout: float = TIMEOUT) -> None:
        super().__init__(BlockingSingleFileStore(path), threads=2, timeout=timeout)

    async def find(self, user: str) -> list[Record]:
        """As `Finds.find`."""
        return await self._run(self.blocking.find, user)


def from_url(url: StoreURL) -> SingleFileStore:
    """Return a store for `file:///path/to/file?timeout=…`."""
    path, timeout = _parts(url)
    return SingleFileStore(path, timeout=timeout)


def blocking_from_url(url: StoreURL) -> BlockingSingleFileStore:
    """Return the same for threads."""
    return BlockingSingleFileStore(_parts(url)[0])


def _parts(url: StoreURL) -> tuple[str, float]:
    timeout = url.take("timeout", TIMEOUT, float)
    url.finish()
    if url.netloc or url.path in ("", "/"):
        raise UsageError(
            f"expected a file's absolute path, as file:///var/lib/app/sessions, got {url.netloc}{url.path}"
        )
    return url.path, timeout
