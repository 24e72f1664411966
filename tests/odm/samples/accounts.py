"""Optimistic locking."""

from __future__ import annotations

from typing import Annotated

from mangonel.odm import Document, ObjectId, StaleDocument, Version, inc


class Account(Document):
    owner: str
    cents: int = 0
    rev: Annotated[int, Version] = 0


def withdraw(id_: ObjectId, n: int) -> Account:
    for _ in range(5):
        acc = Account.get(id_)
        acc.cents -= n
        try:
            return acc.save()
        except StaleDocument:
            continue
    raise RuntimeError("contention")


async def deposit(id_: ObjectId, n: int) -> Account | None:
    return await Account.find(Account.id == id_).afind_and_update(inc(Account.cents, n))
