"""Migrations change each document once, despite concurrent writers and kills; and back again.

`MANGONEL_ODM_DOCUMENTS` and `MANGONEL_ODM_KILLS` ask for more than the few of a usual run.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from mangonel import MongoClient
from mangonel.cli import main
from mangonel.odm import Document, connect
from mangonel.odm.migrations import Migration, MigrationError, Runner, load, state

COUNT = int(os.environ.get("MANGONEL_ODM_DOCUMENTS", "600"))
KILLS = int(os.environ.get("MANGONEL_ODM_KILLS", "2"))

ADD = """
COLLECTION = "things"

def forward(document):
    document["n"] += 1
    return document

def backward(document):
    document["n"] -= 1
    return document
"""
RENAME = """
COLLECTION = "things"
FILTER = {"old": {"$exists": True}}
BACK_FILTER = {"new": {"$exists": True}}
FORWARD = [{"$set": {"new": "$old"}}, {"$unset": "old"}]
BACKWARD = [{"$set": {"old": "$new"}}, {"$unset": "new"}]
"""


@pytest.fixture
def database(server: Any, database_name: str) -> Any:
    with MongoClient(server.uri) as client:
        yield client[database_name]
        client.drop_database(database_name)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "0001_add.py").write_text(ADD)
    (tmp_path / "0002_rename.py").write_text(RENAME)
    (tmp_path / "README.py").write_text("raise RuntimeError")
    return tmp_path


def rows(database: Any) -> list[dict[str, Any]]:
    """The documents, in the order of their ids."""
    found: list[dict[str, Any]] = database.things.find().sort("_id").to_list()
    return found


def test_migrations_run_once_in_order_and_back(database: Any, folder: Path) -> None:
    # One collection holds ids of several types.
    database.things.insert_many([{"_id": id, "n": 1, "old": "x"} for id in (1, 2, "a", "b", b"c")])
    before = rows(database)
    runner = Runner(database, load(folder), batch=2)
    assert runner.migrate() == ["0001_add", "0002_rename"]
    assert [row["n"] for row in rows(database)] == [2] * 5
    assert all(set(row) == {"_id", "n", "new"} for row in rows(database))
    assert runner.migrate() == []
    for wrong in (3, -1):
        with pytest.raises(
            ValueError, match=f"expected 0 or the number of a migration, 1 to 2, .*, got {wrong}"
        ):
            runner.migrate(to=wrong)
    assert runner.migrate(to=1) == ["0002_rename"]
    assert runner.migrate(to=0) == ["0001_add"]
    assert rows(database) == before
    assert runner.migrate(to=1) == ["0001_add"]


def test_a_trial_writes_nothing_and_finds_what_would_fail(database: Any, folder: Path) -> None:
    database.things.insert_many([{"n": 1}, {"n": 2}])
    seen: list[str] = []
    Runner(database, load(folder), report=lambda progress: seen.append(str(progress))).migrate(is_trial=True)
    assert seen[0] == "0001_add forward: 2 of 2 documents would change"
    assert database.list_collection_names() == ["things"]
    database.things.insert_one({"_id": "bad", "n": "text"})
    with pytest.raises(MigrationError, match="things 'bad': TypeError"):
        Runner(database, load(folder)).migrate(is_trial=True)


def test_a_document_that_cannot_be_changed_is_named_and_the_next_run_continues(
    database: Any, folder: Path
) -> None:
    database.things.insert_many([{"_id": n, "n": 1} for n in range(5)])
    database.things.update_one({"_id": 3}, {"$set": {"n": "text"}})
    with pytest.raises(MigrationError, match="things 3"):
        Runner(database, load(folder), batch=2).migrate(to=1)
    database.things.update_one({"_id": 3}, {"$set": {"n": 1}})
    assert Runner(database, load(folder), batch=2).migrate(to=1) == ["0001_add"]
    assert [row["n"] for row in rows(database)] == [2] * 5


def test_a_writer_that_comes_between_is_not_overwritten(database: Any, folder: Path) -> None:
    database.things.insert_many([{"_id": n, "n": 1, "w": 0} for n in range(4)])
    (migration, _) = load(folder)
    plain: Any = migration.forward

    def forward(document: dict[str, Any]) -> Any:
        # Each document changes once without the migration's knowledge.
        database.things.update_one({"_id": document["_id"], "w": 0}, {"$set": {"w": 1}, "$inc": {"n": 10}})
        return plain(document)

    import dataclasses

    Runner(database, [dataclasses.replace(migration, forward=forward)]).migrate()
    assert [(row["n"], row["w"]) for row in rows(database)] == [(12, 1)] * 4


def test_models_that_forbid_unknown_keys_are_read_and_checked_during_a_migration(
    server: Any, database: Any
) -> None:
    db = connect(server.uri, database=database.name)

    class Closed(Document):
        __collection__ = "things"
        __unknown__ = "forbid"
        n: int

    read: list[int] = []
    Closed.create_collection(validate=True)
    Closed.insert_many([Closed(n=n) for n in range(4)])

    def add(document: dict[str, Any]) -> dict[str, Any]:
        return {**document, "n": document["n"] + 10}

    def report(_: Any) -> None:
        read.extend(one.n for one in Closed.find())

    Runner(database, [Migration(1, "0001_add", "things", add)], batch=2, report=report).migrate()
    db.close()
    assert sorted(read) == [2, 3, 10, 10, 11, 11, 12, 13]


@pytest.mark.parametrize("change", [lambda row: {**row, "n": "text"}, [{"$set": {"n": "text"}}]])
def test_a_document_that_the_server_refuses_is_named(database: Any, change: Any) -> None:
    database.create_collection("things", validator={"n": {"$type": "int"}})
    database.things.insert_many([{"_id": n, "n": n} for n in range(3)])
    with pytest.raises(
        MigrationError, match="refused the changed document: Document failed validation"
    ) as found:
        Runner(database, [Migration(1, "0001_text", "things", change)]).migrate()
    assert "things 0" in str(found.value) or not callable(change)


def test_a_document_that_is_too_large_for_a_function_is_named(database: Any) -> None:
    database.things.insert_many([{"_id": 1}, {"_id": 2, "text": "x" * 9_000_000}])
    with pytest.raises(MigrationError, match=r"things 2 is too large: .* FORWARD = \[") as found:
        Runner(database, [Migration(1, "0001_n", "things", lambda row: {**row, "n": 1})]).migrate()
    assert len(str(found.value)) < 300


def test_a_slow_function_keeps_the_lease(database: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each document takes 12 s of a lease of 30: the server's clock and this process's are moved, not slept."""
    moved = [0.0]
    clock = SimpleNamespace(monotonic=lambda: time.monotonic() + moved[0], sleep=time.sleep)
    monkeypatch.setattr(state, "time", clock)
    database.things.insert_many([{"_id": n, "n": 0} for n in range(10)])
    taken: list[bool] = []

    def slow(document: dict[str, Any]) -> dict[str, Any]:
        moved[0] += 12.0
        earlier = {"$dateSubtract": {"startDate": "$until", "unit": "second", "amount": 12}}
        database.migrations.update_one({"_id": state.LOCK}, [{"$set": {"until": earlier}}])
        taken.append(state.State(database)._take())
        return {**document, "n": document["n"] + 1}

    assert Runner(database, [Migration(1, "0001_add", "things", slow)]).migrate() == ["0001_add"]
    assert taken == [False] * 10
    assert [row["n"] for row in rows(database)] == [1] * 10


def test_of_two_at_once_one_waits_and_finds_nothing_to_do(database: Any) -> None:
    database.things.insert_many([{"_id": n, "n": 0} for n in range(10)])
    is_inside, may_go_on = threading.Event(), threading.Event()

    def add(document: dict[str, Any]) -> dict[str, Any]:
        is_inside.set()
        assert may_go_on.wait(60)
        return {**document, "n": document["n"] + 1}

    def run() -> list[str]:
        return Runner(database, [Migration(1, "0001_add", "things", add)]).migrate()

    with ThreadPoolExecutor(2) as pool:
        first = pool.submit(run)
        assert is_inside.wait(60)
        second = pool.submit(run)
        assert not state.State(database)._take()
        may_go_on.set()
        assert (first.result(60), second.result(60)) == (["0001_add"], [])
    assert [row["n"] for row in rows(database)] == [1] * 10


def test_what_is_inserted_behind_the_migration_is_changed_too(database: Any, folder: Path) -> None:
    database.things.insert_many([{"_id": n, "old": n} for n in range(10, 14)])
    added: list[int] = []

    def report(progress: Any) -> None:
        if progress.name == "0002_rename" and len(added) < 3:
            added.append(len(added))
            database.things.insert_one({"_id": added[-1], "old": added[-1]})

    Runner(database, load(folder)[1:], batch=2, report=report).migrate()
    assert len(added) == 3
    assert all("new" in row and "old" not in row for row in rows(database))


def test_a_migration_without_a_way_back_says_so(database: Any, tmp_path: Path) -> None:
    (tmp_path / "0001_only.py").write_text(ADD.partition("def backward")[0])
    runner = Runner(database, load(tmp_path))
    runner.migrate()
    with pytest.raises(MigrationError, match="0001_only has no way back"):
        runner.migrate(to=0)
    with pytest.raises(MigrationError, match="expected the files of 0001_only"):
        Runner(database, []).migrate()


def seen_by_the_server(database: Any) -> int:
    """Return how many documents and keys the server has examined since its start."""
    counted = database.command("serverStatus")["metrics"]["queryExecutor"]
    return int(counted["scanned"]) + int(counted["scannedObjects"])


@pytest.mark.no_sample
def test_each_document_is_looked_at_a_few_times_however_often_it_is_ended_and_begun(
    database: Any, folder: Path
) -> None:
    count, batch = 4000, 20
    database.things.insert_many([{"_id": n, "n": n, "old": n} for n in range(count)])
    migrations = load(folder)
    left = [0]

    class Ended(BaseException):
        pass

    def report(progress: Any) -> None:
        left[0] -= 1
        if left[0] == 0:
            raise Ended

    def save(name: str, **values: Any) -> None:
        plain(name, **values)
        # Also when marks are removed, which reports nothing.
        if "changed" not in values and values.get("position") is not None:
            report(None)

    before = seen_by_the_server(database)
    ends = 0
    while True:
        left[0] = 25
        runner = Runner(database, migrations, batch=batch, report=report)
        plain: Any = runner._state.save
        runner._state.save = save  # type: ignore[method-assign]
        try:
            runner.migrate()
        except Ended:
            ends += 1
            continue
        break
    # Two migrations of 200 batches each, and as many again for the marks.
    assert ends >= 10
    assert [row["new"] for row in rows(database)] == list(range(count))
    # Scanning from the start for each batch would examine 200 times half of them.
    assert seen_by_the_server(database) - before < 60 * count


def test_a_mark_that_a_writer_puts_back_is_taken_away_too(database: Any, folder: Path) -> None:
    database.things.insert_many([{"_id": n, "n": n} for n in range(20)])
    runner = Runner(database, load(folder)[:1], batch=5)
    plain: Any = runner._state.save
    old: list[dict[str, Any]] = []

    def save(name: str, **values: Any) -> None:
        plain(name, **values)
        if values.get("stage") == "cleaning":
            old.append(database.things.find_one({"_id": 1}))
        elif values.get("position") == 14 and old:
            database.things.replace_one({"_id": 1}, old.pop())
            old.clear()

    runner._state.save = save  # type: ignore[method-assign]
    runner.migrate()
    assert rows(database) == [{"_id": n, "n": n + 1} for n in range(20)]


def test_two_migrations_of_one_number_are_refused(folder: Path) -> None:
    (folder / "0002_other.py").write_text(ADD)
    with pytest.raises(ValueError, match="one migration of the number 2"):
        load(folder)


def kill_points() -> list[int]:
    """Return the numbers of changed documents at which the process is killed."""
    chance = random.Random(COUNT)
    return [COUNT * n // (KILLS + 2) + chance.randrange(COUNT // 20) for n in range(1, KILLS + 1)]


def test_a_migration_that_is_killed_beside_writers_ends_as_one_run_does(
    server: Any, database: Any, folder: Path
) -> None:
    for start in range(0, COUNT, 10_000):
        several = range(start, min(start + 10_000, COUNT))
        database.things.insert_many([{"_id": n, "n": n, "w": 0} for n in several])
    (folder / "0002_rename.py").unlink()
    # Beside busy writers this process may hear late of its turn: the last document waits for the end of the input.
    waits = f"forward(document):\n    document['_id'] == {COUNT - 1} and sys.stdin.read()"
    (folder / "0001_add.py").write_text("import sys\n" + ADD.replace("forward(document):", waits))
    url = f"{server.uri.split('/?')[0]}/{database.name}"
    batch = str(max(25, COUNT // 1000))
    command = [sys.executable, "-m", "mangonel", "odm", "migrate", url, str(folder), "--batch", batch]
    written = [0, 0]
    is_over = threading.Event()

    def write(which: int) -> None:
        with MongoClient(server.uri) as client:
            while not is_over.is_set():
                id = (written[which] * 7 + which * COUNT // 2) % COUNT
                client[database.name].things.update_one({"_id": id}, {"$inc": {"w": 1}})
                written[which] += 1

    writers = [threading.Thread(target=write, args=(which,)) for which in (0, 1)]
    for writer in writers:
        writer.start()
    try:
        for kill_at in kill_points():
            process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
            assert process.stdout is not None
            for line in process.stdout:
                if int(line.split(": ")[1].split()[0]) >= kill_at:
                    break
            if COUNT >= 100_000:
                # Anywhere within a batch, not only at its end.
                time.sleep(random.random() / 10)
            os.kill(process.pid, signal.SIGKILL)
            process.communicate()
        assert database.migrations.find_one({"_id": "0001_add"})["stage"] == "running"
        done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
    finally:
        is_over.set()
        for writer in writers:
            writer.join()
    seen = hits = 0
    for row in database.things.find().sort("_id"):
        assert set(row) == {"_id", "n", "w"}
        assert (row["_id"], row["n"]) == (seen, seen + 1)
        seen += 1
        hits += row["w"]
    assert (seen, hits) == (COUNT, sum(written))


def test_the_command_migrates_and_says_what_it_did(
    server: Any, database: Any, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    database.things.insert_many([{"n": 1, "old": 1}])
    url = f"{server.uri.split('/?')[0]}/{database.name}"
    assert main(["odm", "migrate", url, str(folder), "--dry-run"]) == 0
    assert "would run: 0001_add, 0002_rename" in capsys.readouterr().out
    assert main(["odm", "migrate", url, str(folder)]) == 0
    assert "0001_add forward: 1 of 1 documents, 0 s left" in capsys.readouterr().out
    assert main(["odm", "migrate", url, str(folder)]) == 0
    assert capsys.readouterr().out == "nothing to do\n"
    (folder / "none").mkdir()
    assert main(["odm", "migrate", url, str(folder / "none"), "--to", "0"]) == 1
    assert "expected the files of 0001_add, 0002_rename" in capsys.readouterr().err
    (folder / "none").rmdir()
    assert main(["odm", "migrate", url, str(folder / "none")]) == 2
    assert f"No such file or directory: {folder / 'none'}\n" in capsys.readouterr().err


NESTED = """
COLLECTION = "things"

def forward(document):
    document["inner"]["n"] += 1
    document["list"].append({"n": 1})
    return document
"""


def test_a_function_may_change_what_stands_inside_a_document(database: Any, tmp_path: Path) -> None:
    (tmp_path / "0001_nested.py").write_text(NESTED)
    database.things.insert_many({"_id": n, "inner": {"n": n}, "list": []} for n in range(5))
    reports: list[Any] = []
    runner = Runner(database, load(tmp_path), batch=2, report=reports.append)
    runner.migrate(is_trial=True)
    assert reports[-1].changed == 5
    runner.migrate()
    assert rows(database) == [{"_id": n, "inner": {"n": n + 1}, "list": [{"n": 1}]} for n in range(5)]


@pytest.mark.parametrize(
    ("body", "expected"),
    [("document['n'] = 2", "it changed it and returned None"), ("return True", "got bool")],
)
def test_a_function_that_forgets_its_document_is_told_so(
    body: str, expected: str, database: Any, tmp_path: Path
) -> None:
    (tmp_path / "0001_x.py").write_text(f'COLLECTION = "things"\n\ndef forward(document):\n    {body}\n')
    database.things.insert_one({"_id": 1, "n": 1})
    with pytest.raises(MigrationError, match=f"expected the function to return the document .*{expected}"):
        Runner(database, load(tmp_path)).migrate()
    assert [row["n"] for row in rows(database)] == [1]


FORWARD = 'FORWARD = [{"$unset": "a"}]'


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        ("0001-split.py", FORWARD, "expected a name such as 0001_split_name.py"),
        ("0000_zero.py", FORWARD, "with a number from 1 on, got 0000_zero.py"),
        (
            "0001_x.py",
            f'{FORWARD}\nFILTERS = {{"a": 1}}',
            "expected one of COLLECTION, FILTER, .* got FILTERS",
        ),
        ("0001_x.py", f'{FORWARD}\nFilter = {{"a": 1}}', "got Filter"),
        ("0001_x.py", f'{FORWARD}\nFILTER = "a"', "expected a query document for FILTER"),
        ("0001_x.py", 'FORWARD = {"$unset": "a"}', "expected a plain function forward"),
        ("0001_x.py", "async def forward(document): ...", "expected a plain function forward"),
        (
            "0001_x.py",
            f"{FORWARD}\ndef forward(document): ...",
            "expected forward or FORWARD in .*, got both",
        ),
        ("0001_x.py", f"{FORWARD}\nBACKWARD = 3", "expected a plain function backward"),
    ],
)
def test_a_file_that_would_be_read_otherwise_than_meant_is_refused(
    name: str, text: str, expected: str, tmp_path: Path
) -> None:
    (tmp_path / name).write_text(f'COLLECTION = "things"\n{text}\n')
    with pytest.raises(ValueError, match=expected):
        load(tmp_path)
