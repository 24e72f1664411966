"""The common base of imports of lines and of tables: several threads insert pieces; a file records the position.

Knows no format.
"""

from __future__ import annotations

import json
import os
import time
from collections import deque
from collections.abc import Callable, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from mangonel.errors import BulkWriteError

__all__ = ["AHEAD", "Done", "KeptPlace", "insert_in_order"]

AHEAD = 2
"""Pieces in flight for each thread."""
REMEMBERED = 100
"""Problems whose texts a result has."""

_DUPLICATE_KEY = 11000

P = TypeVar("P")


@dataclass
class Done:
    """The result of inserting a piece."""

    inserted: int = 0
    duplicates: int = 0
    problems: list[tuple[int, str]] = field(default_factory=list)

    def add_to(self, result: Any, place: Callable[[int], str], error: type[Exception] | None) -> None:
        """Add the counts and problems to an import's result; with an `error`, raise it for the first problem."""
        result.present += self.duplicates
        result.inserted += self.inserted
        result.failed += len(self.problems)
        for number, problem in self.problems:
            text = f"{place(number)}: {problem}"
            if error is not None:
                raise error(text)
            if len(result.problems) < REMEMBERED:
                result.problems.append(text)

    def refused(self, error: BulkWriteError, is_doubtful: bool, place: Callable[[int], int]) -> None:
        """Count the inserted documents of a failed unordered insert, and record the refused ones.

        Args:
            error: the insert's error.
            is_doubtful: an earlier import may have inserted the piece, so an `_id` that exists is no problem.
            place: returns the place in the file of a document of the insert.

        Raises:
            BulkWriteError: the write concern was not reached: inserted documents may be lost.
        """
        details: Any = error.details
        self.inserted += details["nInserted"]
        for write in details["writeErrors"]:
            is_same = write["code"] == _DUPLICATE_KEY and list(write.get("keyPattern", "")) == ["_id"]
            if is_doubtful and is_same:
                self.duplicates += 1
            else:
                self.problems.append((place(write["index"]), write["errmsg"]))
        if details["writeConcernErrors"]:
            raise error


def insert_in_order(
    pieces: Iterable[P], insert: Callable[[P], Done], finish: Callable[[P, Done], None], threads: int
) -> None:
    """Insert pieces in several threads, and finish them in order in this thread.

    Args:
        pieces: read by this thread, a few ahead of the inserts.
        insert: inserts a piece.
        finish: counts a piece that was inserted. After an error here no piece is begun.
        threads: how many.
    """
    waiting: deque[tuple[P, Future[Done]]] = deque()

    def finish_first() -> None:
        piece, future = waiting.popleft()
        finish(piece, future.result())

    with ThreadPoolExecutor(threads) as pool:
        try:
            for piece in pieces:
                waiting.append((piece, pool.submit(insert, piece)))
                if len(waiting) >= threads * AHEAD:
                    finish_first()
            while waiting:
                finish_first()
        finally:
            # Cancel the pieces that have not begun.
            pool.shutdown(wait=True, cancel_futures=True)


class KeptPlace:
    """The position of an import, kept in a file if one is named.

    Args:
        told: the identity of this import, in JSON's types.
        names: the attributes that make up the position, numbers from 0.
        path: the file, or None. If it exists, the import continues from its position.
        error: the class of errors.
    """

    def __init__(
        self,
        told: dict[str, Any],
        names: tuple[str, ...],
        path: Path | None,
        error: type[Exception],
    ) -> None:
        vars(self).update(dict.fromkeys(names, 0))
        # Like the start of an ObjectId: the seconds, then random bytes.
        self.prefix = int(time.time()).to_bytes(4, "big") + os.urandom(4)
        self._names, self._told, self._path = names, told, path
        self._error = error
        self.is_resumed = path is not None and path.exists()
        if path is not None and self.is_resumed:
            self._read(path)
        else:
            self._write()

    def _read(self, path: Path) -> None:
        try:
            kept = json.loads(path.read_text(encoding="utf-8"))
            told = {name: kept[name] for name in self._told}
            vars(self).update({name: int(kept[name]) for name in self._names})
            self.prefix = bytes.fromhex(kept["prefix"])
        except (ValueError, KeyError, TypeError) as error:
            raise self._error(f"expected the progress of an import in {path}, got something else") from error
        if told != self._told:
            differing = ", ".join(name for name in told if told[name] != self._told[name])
            raise self._error(
                f"{path} belongs to another import, with another {differing}: expected {self._told}, got {told}; give "
                "the same arguments, or remove it"
            )

    def note(self, **place: int) -> None:
        """Record that everything before this position is stored."""
        vars(self).update(place)
        self._write()

    def _write(self) -> None:
        if self._path is None:
            return
        place = {name: getattr(self, name) for name in self._names}
        # Replaced atomically, so that an interruption leaves the old file or the new one.
        beside = self._path.with_name(f"{self._path.name}.new")
        beside.write_text(json.dumps(self._told | place | {"prefix": self.prefix.hex()}), encoding="utf-8")
        beside.replace(self._path)

    def remove(self) -> None:
        """Remove the file: the import is complete."""
        if self._path is not None:
            self._path.unlink(missing_ok=True)
