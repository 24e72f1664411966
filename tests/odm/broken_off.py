"""A save that is interrupted while the server has it, and repeated at once: the server runs the repetition first."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Any

from mangonel import timeout
from mangonel.errors import PyMongoError
from mangonel.odm import StaleDocument
from tools.faces import eventually

__all__ = ["break_off"]

HELD_MS = 20


def break_off(face: Any, admin: Any, document: Any, ways: tuple[str, str], after: float) -> bool:
    """Save a document twice; return whether the second save was not refused, once the server has nothing left to do.

    Args:
        face: on asyncio the first save is cancelled; else its time limit passes.
        admin: the database of that name.
        document: a document with changes.
        ways: "save" or "save_all", for each of the two.
        after: seconds until the first is broken off.
    """
    kind = type(document)

    def save(way: str) -> Any:
        if way == "save":
            return document.asave() if face.is_async else document.save()
        return (kind.asave_all if face.is_async else kind.save_all)([document])

    async def steps() -> bool:
        running = asyncio.ensure_future(save(ways[0]))
        await asyncio.sleep(after)
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        try:
            await save(ways[1])
        except StaleDocument:
            return False
        return True

    def block() -> bool:
        with contextlib.suppress(PyMongoError), timeout(after):
            save(ways[0])
        try:
            save(ways[1])
        except StaleDocument:
            return False
        return True

    point = {"configureFailPoint": "failCommand", "mode": {"times": 1}}
    admin.command(point, data={"failCommands": ["update"], "blockConnection": True, "blockTimeMS": HELD_MS})
    try:
        is_known: bool = face.run(steps if face.is_async else block)
    finally:
        admin.command("configureFailPoint", "failCommand", mode="off")
    collection = document.__collection_name__()
    updates = [{"$currentOp": {}}, {"$match": {"command.update": collection}}]
    eventually(lambda: not admin.aggregate(updates).to_list(), "the end of all updates")
    return is_known
