"""New websessions of requests that arrive at once, in one command: what comes while a command is under way waits for
the next one. Each request still hears that its own record was acknowledged, or was not.

A request that comes alone is sent alone and at once. Knows no driver but by the names that drivers share.
"""

from __future__ import annotations

import asyncio
from typing import Any

from mangonel.websessions.record import Record

__all__ = ["Inserts"]

# Commands under way before others wait for one to end: while the server works on one, the next is being made.
LANES = 2
# Records of a command; the server works on batches of this size anyway.
MOST = 64
DUPLICATE = 11000


class Inserts:
    """Inserts of one event loop into one collection.

    Args:
        documents: the store's `_Documents`.
        get: the store's, to see after a broken line whose record is stored.
    """

    def __init__(self, documents: Any, get: Any) -> None:
        self._documents = documents
        self._get = get
        self._waiting: list[tuple[Record, asyncio.Future[bool]]] = []
        self._busy = 0
        self._senders: set[asyncio.Task[None]] = set()

    async def put(self, record: Record) -> bool:
        """Insert a record; False when its key is taken."""
        if self._busy >= LANES:
            future: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
            self._waiting.append((record, future))
            return await future
        self._busy += 1
        try:
            return await self._insert_one(record)
        finally:
            self._busy -= 1
            if self._waiting:
                self._start()

    async def _insert_one(self, record: Record) -> bool:
        documents = self._documents
        try:
            await documents.plain.insert_one(documents.document(record))
        except documents.duplicate:
            return False
        except documents.failures as error:
            if not documents.may_repeat(error):
                raise
            try:
                await documents.plain.insert_one(documents.document(record))
            except documents.duplicate:
                return bool(await self._get(record.key) == record)
        return True

    def _start(self) -> None:
        self._busy += 1
        sender = asyncio.get_running_loop().create_task(self._send())
        self._senders.add(sender)
        sender.add_done_callback(self._senders.discard)

    async def _send(self) -> None:
        """Send what waits, until nothing does."""
        batch: list[tuple[Record, asyncio.Future[bool]]] = []
        try:
            while self._waiting:
                batch, self._waiting = self._waiting[:MOST], self._waiting[MOST:]
                # Who has given up meanwhile was told that nothing is certain; nothing is the better answer.
                batch = [(record, future) for record, future in batch if not future.done()]
                if not batch:
                    continue
                try:
                    refused = await self._insert_many([record for record, _ in batch])
                except Exception as error:
                    _fail(batch, error)
                    continue
                for number, (_, future) in enumerate(batch):
                    if not future.done():
                        future.set_result(number not in refused)
        finally:
            self._busy -= 1
            # Of a loop that ends; after a normal end nobody is left.
            for _, future in (*batch, *self._waiting):
                if not future.done():
                    future.cancel()

    async def _insert_many(self, records: list[Record]) -> set[int]:
        """Insert records; return the places of those whose key is taken."""
        documents = self._documents
        try:
            return await self._refused(records)
        except documents.failures as error:
            if not documents.may_repeat(error):
                raise
        refused = await self._refused(records)
        # Some may have been refused by themselves, having arrived before.
        return {number for number in refused if await self._get(records[number].key) != records[number]}

    async def _refused(self, records: list[Record]) -> set[int]:
        documents = self._documents
        try:
            await documents.plain.insert_many(list(map(documents.document, records)), ordered=False)
        except documents.bulk_failure as error:
            details = error.details or {}
            errors = details.get("writeErrors", [])
            if details.get("writeConcernErrors") or any(each["code"] != DUPLICATE for each in errors):
                raise
            return {each["index"] for each in errors}
        return set()


def _fail(batch: list[tuple[Record, asyncio.Future[bool]]], error: Exception) -> None:
    for _, future in batch:
        if not future.done():
            future.set_exception(error)
