"""`connect(..., advise=True)`: the mapper reports references in loops, and the driver everything else."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import Any

import pytest

import tools.faces
from mangonel._shared.advice import advisor
from mangonel.errors import AdviceWarning, TooManyCommands
from mangonel.odm import BelongsTo, Connection, Document, Many, Ref, connect, many
from mangonel.server import Server
from mangonel.testing import count_commands


class Guild(Document):
    __collection__ = "adv_guilds"
    name: str
    members: Many[Member] = many(by="guild")


class Member(Document):
    __collection__ = "adv_members"
    name: str
    guild: Ref[Guild]
    other: BelongsTo[Guild]


# On asyncio the helper awaits the result of a test's function.
HERE = {__file__, tools.faces.__file__, __file__.replace("test_advice", "conftest")}


@pytest.fixture
def advised(
    server: Server, database_name: str, face: Any, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Connection]:
    """A connection that advises, to a database with a few documents."""
    # On a busy machine, a pause of 0.1 s between two fetches does not mean that a loop has ended.
    monkeypatch.setattr(advisor, "_PAUSE_S", tools.faces.TIMEOUT)
    with warnings.catch_warnings():
        warnings.simplefilter("always", AdviceWarning)
        db = connect(server.uri, database=database_name, advise=True)
        guilds = [Guild(name=f"g{n}") for n in range(6)]
        face.call(Guild, "insert_many", guilds)
        rows = [Member(name=f"m{n}", guild=guilds[n % 6], other=guilds[n % 6]) for n in range(12)]
        face.call(Member, "insert_many", rows)
        yield db
        db.close()
        face.wait(db.aclose())


def told(db: Connection, face: Any) -> list[tuple[str, str]]:
    found = db.clients.get(face.is_async)._advisor
    found.settle(tools.faces.TIMEOUT)
    assert all(place.file in HERE for _, _, place in found.told)
    return [(kind, text) for kind, text, _ in found.told]


def test_an_inverse_in_a_loop_is_told_with_the_include_that_helps(advised: Connection, face: Any) -> None:
    async def loop() -> None:
        for guild in await Guild.find().aall():
            await guild.members.aall()

    if face.is_async:
        face.run(loop)
    else:
        for guild in Guild.find():
            guild.members.all()
    found = [text for kind, text in told(advised, face) if kind == "reference in a loop"]
    assert len(found) == 1
    assert "include(Guild.members)" in found[0]
    # The mapper's message says more than the driver's own advice on loops.
    assert "find in a loop" not in dict(told(advised, face))


def test_a_reference_in_a_loop_is_told(advised: Connection, face: Any) -> None:
    ids = [member.id for member in face.call(Member.find(), "all")]

    async def loop() -> None:
        for id in ids:
            member = await Member.aget(id)
            await member.guild.aget()

    if face.is_async:
        face.run(loop)
    else:
        for id in ids:
            assert Member.get(id).other.name
    found = [text for kind, text in told(advised, face) if kind == "reference in a loop"]
    assert len(found) == 1
    assert f"include(Member.{'guild' if face.is_async else 'other'})" in found[0]


def test_what_is_included_or_fetched_together_is_not_told(advised: Connection, face: Any) -> None:
    for guild in face.call(Guild.find().include(Guild.members), "all"):
        for member in guild.members.values:
            assert face.call(member.guild, "get") is guild
    for member in face.call(Member.find(), "all"):
        face.call(member.guild, "get")
    assert "reference in a loop" not in dict(told(advised, face))


def test_a_query_without_an_index_is_told(advised: Connection, face: Any) -> None:
    face.call(Member.find(Member.name == "m3"), "all")
    assert [kind for kind, _ in told(advised, face)] == ["collection scan"]


def test_commands_are_counted_for_tests(db: Connection, face: Any) -> None:
    face.save(Guild(name="a"))
    with count_commands(at_most=2) as commands:
        face.call(Guild.find(), "all")
        face.call(Guild.find(), "count")
    assert commands.sent == [("find", "adv_guilds"), ("aggregate", "adv_guilds")]
    client = db.clients.get(face.is_async)
    counting = count_commands(client, at_most=1)
    counting.__enter__()
    for _ in range(3):
        face.call(Guild.find(), "all")
    with pytest.raises(TooManyCommands, match="at most 1 commands, got 3: 3 times find adv_guilds"):
        counting.__exit__(None, None, None)
    with count_commands(at_most=0):
        pass
