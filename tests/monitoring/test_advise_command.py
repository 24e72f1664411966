"""`mangonel advise`: missing indexes from the profiler's entries, unused and redundant ones from `$indexStats`."""

from __future__ import annotations

import datetime as dt
import json
from typing import Any

import pytest

from mangonel import MongoClient
from mangonel.advice import examine
from mangonel.advice.report import indexed, profiled
from mangonel.cli import main
from mangonel.server import Server, start


def test_a_server_is_examined(server: Server, database_name: str, capsys: pytest.CaptureFixture[str]) -> None:
    with MongoClient(server.uri) as client:
        database = client[database_name]
        people = database.people
        people.insert_many([{"n": n, "name": f"p{n}"} for n in range(300)])
        people.create_index("unused")
        people.create_index("name")
        people.create_index([("name", 1), ("n", 1)])
        assert [note for note in examine(client, [database_name]).notes if "profiler is off" in note]
        database.command("profile", 2)
        for n in range(3):
            people.find_one({"n": n + 290})
            list(people.find({"n": {"$gt": n}}).sort("x").limit(3))
        people.update_many({"other": 4}, {"$set": {"n": 1}})
        people.find_one({"name": "p3"})
        database.command("profile", 0)
        report = examine(client, [database_name])
    said = {(one.kind, one.text.partition(";")[0].partition(",")[0]) for one in report.advice}
    assert ("missing index", "3 times find {n: ?} {}") in said
    assert any(kind == "missing index" and "update {other: ?}" in text for kind, text in said)
    assert any("create an index on [('x', 1), ('n', 1)]" in one.text for one in report.advice)
    assert {one.kind for one in report.advice} >= {"unused index", "redundant index"}
    assert not any("{name: ?}" in one.text for one in report.advice)
    assert main(["advise", server.uri, "--database", database_name]) == 1
    assert "missing index: " in capsys.readouterr().out
    assert main(["advise", server.uri, "--database", database_name, "--json"]) == 1
    assert len(json.loads(capsys.readouterr().out)["advice"]) == len(report.advice)
    assert main(["advise", server.uri, "--database", "nothing_there"]) == 1
    assert "nothing_there: there are no collections; is this the name" in capsys.readouterr().out


def test_what_the_user_may_not_read_is_no_good_news(capsys: pytest.CaptureFixture[str]) -> None:
    with start(auth=("ada", "secret")) as server:
        with MongoClient(server.uri) as client:
            client.shop.orders.insert_one({})
            client.shop.command("createUser", "eve", pwd="secret", roles=["read"])
        host = server.members[0].address
        status = main(["advise", f"mongodb://eve:secret@{host}/?authSource=shop", "--database", "shop"])
    said = capsys.readouterr().out
    assert status == 1
    assert "note: shop: the profiler cannot be read: not authorized" in said
    assert "note: shop.orders: $indexStats cannot be read: not authorized" in said
    assert said.endswith("nothing to advise of what could be read\n")
    assert "full error" not in said


@pytest.mark.parametrize(
    "row",
    [
        {"op": "insert", "ns": "a.b", "command": {"insert": "b"}},
        {"op": "command", "ns": "a.b"},
        {"op": "query", "ns": "a.b", "command": {"find": "b", "filter": {"a": 1}}, "docsExamined": 3},
        {
            "op": "query",
            "ns": "a.b",
            "command": {"find": "b"},
            "docsExamined": 3000,
            "planSummary": "COLLSCAN",
        },
    ],
)
def test_entries_that_give_no_advice(row: dict[str, Any]) -> None:
    assert profiled([row]) == []


def test_indexes_with_a_rule_of_their_own_are_not_redundant() -> None:
    since = dt.datetime(2026, 1, 2, tzinfo=dt.UTC)
    never = {"ops": 0, "since": since}
    both = {"name": "a_b", "accesses": {"ops": 3, "since": since}, "spec": {"key": {"a": 1, "b": 1}}}
    plain = {"name": "a", "accesses": never, "spec": {"key": {"a": 1}}}
    unique = {"name": "u", "accesses": never, "spec": {"key": {"a": 1}, "unique": True}}
    assert [one.kind for one in indexed("x.y", [both, plain])] == ["redundant index"]
    found = indexed("x.y", [both, unique])
    assert [one.kind for one in found] == ["unused index"]
    assert "since 2026-01-02" in found[0].text
    # An index that one member never used may be used by another.
    assert indexed("x.y", [unique, {**unique, "accesses": {"ops": 1, "since": since}}]) == []
