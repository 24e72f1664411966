"""Tasks of the benchmarking specification: each does its work, and only the work is timed."""

from __future__ import annotations

import asyncio
import os
import tarfile
import zlib
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock

import pytest

from mangonel.lab import documents, scores
from mangonel.lab.contender import Target
from mangonel.lab.contenders import _players
from mangonel.lab.contenders._faces import wait
from mangonel.lab.experiment import Size
from mangonel.lab.experiments import _parts, _spec_parallel, gridfs, spec
from mangonel.lab.results import Results

pymongo = pytest.importorskip("pymongo", reason="PyMongo, which the lab compares with, is not installed")

TWEETS = "tweets"
STORED = 300


@pytest.fixture(scope="module")
def target(server):
    """A database with the tweets to read."""
    with pymongo.MongoClient(server.uri) as client:
        tweet = documents.tweet()
        client.test_lab_spec[TWEETS].insert_many([{"_id": n, **tweet} for n in range(1, STORED + 1)])
        yield Target(server.uri, "test_lab_spec", TWEETS)
        client.drop_database("test_lab_spec")


@pytest.fixture(autouse=True)
def little(monkeypatch):
    """Small files and collections, since the test checks the work and not its speed."""
    monkeypatch.setattr(spec, "TWEETS", STORED)
    monkeypatch.setattr(spec, "FILE_BYTES", 600_000)
    monkeypatch.setattr(_spec_parallel, "PHOTO_BYTES", 300_000)
    monkeypatch.setattr(_spec_parallel, "CHUNK", 20)


PARTS = {part.id: part for part in spec.EXPERIMENT.parts(Size(quick=True))}
ALL = {
    part.id: part for part in spec.EXPERIMENT.parts(Size(parameters={"client_bulk_write": 1, "published": 1}))
}
DRIVERS = ("pymongo", "mangonel", "mangonel-asyncio")


@pytest.fixture
def bench(target, bench_of):
    return lambda contender="mangonel": bench_of(contender, target, Size(quick=True))


@pytest.fixture
def play(target):
    """Return a function that calls verbs of a contender's player and returns their results."""

    def make(name: str, *calls: tuple[Any, ...]) -> list[Any]:
        async def steps() -> list[Any]:
            player = await _players.open_player(name, target)
            found = [await wait(getattr(player, verb)(*arguments)) for verb, *arguments in calls]
            await wait(player.close())
            return found

        return asyncio.run(steps())

    return make


@pytest.mark.enough(1)
@pytest.mark.parametrize("names", [DRIVERS[:2], DRIVERS[::2]], ids=DRIVERS[1:])
def test_all_tasks_give_every_driver_the_same_answers(bench, names):
    # The parallel tasks check the files themselves, so the other test plays them alone.
    found: dict[str, dict[str, str]] = {}
    for name in names:
        at = bench(name)
        for part in PARTS.values():
            if part.excludes(at.contender) or (name == "pymongo" and part.id in spec.PARALLEL):
                continue
            task = spec.EXPERIMENT.task(replace(part, operations=2), at)
            found.setdefault(part.id, {})[name] = task.verify()
            task.extras()
            at.close_adapter()
    assert found.keys() == PARTS.keys() == {name for name in ALL if "client" not in name}
    alone = {*spec.BSON, *spec.PARALLEL}
    assert all(len(answers) == (1 if part in alone else 2) for part, answers in found.items())
    assert all(len(set(answers.values())) == 1 for answers in found.values())


def test_a_wrong_answer_is_found_after_every_sample(bench):
    task = spec.EXPERIMENT.task(replace(PARTS["small-doc-bulk-insert"], operations=5), bench())
    task.verify()
    task.arrange()
    with pytest.raises(AssertionError, match="expected documents 5, got 0"):
        task.extras()


def test_upstream_bug_the_processes_run_before_the_clock_does_and_no_sample_starts_one(bench, monkeypatch):
    task = spec.EXPERIMENT.task(replace(PARTS["gridfs-multi-download"], operations=2), at := bench())
    assert all(helper.process.poll() is None for helper in at.kept["helpers"].each)
    monkeypatch.setattr(_spec_parallel, "Child", None)
    task.arrange()
    assert task.act() == 2
    assert task.extras()["cpu_ns"] > 0


@pytest.mark.parametrize("name", DRIVERS)
def test_upstream_bug_exported_and_downloaded_files_are_on_the_disk_when_the_clock_stops(
    play, monkeypatch, tmp_path, name
):
    lines, file = tmp_path / "lines", tmp_path / "file"
    (_, file_id) = play(name, ("empty_bucket",), ("upload", b"content"))
    synced: list[int] = []
    monkeypatch.setattr(os, "fsync", synced.append)
    exported = ("fill_lines", documents.message(), 3), ("export_file", 0, 3, str(lines))
    play(name, *exported, ("download_file", file_id, str(file)))
    assert len(synced) == 2
    assert len(lines.read_text().splitlines()) == 3
    assert file.read_bytes() == b"content"


@pytest.mark.parametrize("name", DRIVERS)
def test_upstream_bug_an_export_finds_its_range_by_an_index(play, target, tmp_path, name):
    play(name, ("fill_lines", documents.message(), 40))
    with pymongo.MongoClient(target.uri) as client:
        database = client.test_lab_spec
        database["system.profile"].drop()
        database.command("profile", 2)
        play(name, ("export_file", 20, 20, str(tmp_path / "lines")))
        database.command("profile", 0)
        found = database["system.profile"].find({"command.find": {"$exists": True}})
        plans = [each["planSummary"] for each in found]
    assert plans
    assert all(plan.startswith("IXSCAN") for plan in plans), plans


def test_upstream_bug_a_file_for_gridfs_does_not_compress():
    assert gridfs.content is _parts.content
    data = _parts.content(200_000)
    assert len(data) == 200_000
    assert len(zlib.compress(data)) > 0.99 * len(data)


@pytest.mark.skipif(
    "MONGODB_BENCHMARK_DATA" not in os.environ,
    reason="MONGODB_BENCHMARK_DATA does not name the folder of the specification's documents",
)
def test_upstream_bug_megabytes_are_counted_by_the_published_files():
    folder = Path(os.environ["MONGODB_BENCHMARK_DATA"])
    sizes = {}
    for name in ("extended_bson", "single_and_multi_document"):
        with tarfile.open(folder / f"{name}.tgz") as file:
            sizes |= {Path(member.name).name: member.size for member in file if member.isfile()}
    published = {
        "flat_bson.json": "flat-encoding",
        "deep_bson.json": "deep-encoding",
        "full_bson.json": "full-encoding",
        "tweet.json": "find-one-by-id",
        "small_doc.json": "small-doc-insert-one",
        "large_doc.json": "large-doc-insert-one",
        "gridfs_large.bin": "gridfs-upload",
    }
    for name, part in published.items():
        assert sizes[name] == ALL[part].bytes_each, name


def results(*rows: tuple[str, str, float]) -> Results:
    """Return results of parts that took this many µs an operation, by contender."""
    plain = {"experiment": "spec", "version": 1, "unit": "operation", "write_concern": "", "judge": "wall"}
    cells = []
    for part, contender, wall_us in rows:
        sample = {"wall_ns": wall_us * 1000, "ops": 1, "cpu_ns": 1, "peak_rss": 1, "extras": {}}
        rounds = [{"round": number, "samples": [sample]} for number in range(3)]
        own = {"part": part, "title": part, "contender": contender, "bytes_each": ALL[part].bytes_each}
        cells.append({**plain, **own, "failures": [], "rounds": rounds})
    return Results({"plan": {"experiments": ["spec"]}, "cells": cells, "missing": []})


def test_a_score_is_the_mean_of_megabytes_per_second():
    rows = [(part, "pymongo", ALL[part].bytes_each / 10) for part in spec.READS]
    rows += [(part, "pymongo", ALL[part].bytes_each / 30) for part in spec.WRITES]
    found = scores.scores(spec.EXPERIMENT, results(*rows))["pymongo"]

    assert (found["ReadBench"].value, found["WriteBench"].value) == pytest.approx((10, 30))
    assert found["DriverBench"].value == pytest.approx(20)
    assert found["BSONBench"] == "not played"


def test_a_contender_that_lacks_a_task_has_no_score_of_it():
    rows = [
        (part, name, 1000.0)
        for part in (*spec.SINGLE, *spec.MULTI)
        for name in ("pymongo", "mongojet")
        if name == "pymongo" or "bulk-write" not in part
    ]
    found = scores.scores(spec.EXPERIMENT, results(*rows))["mongojet"]

    assert found["MultiBench"].startswith("lacks small-doc-bulk-write and ")
    assert found["SingleBench"].value > 0


def test_the_codec_of_a_driver_counts_in_its_scores():
    rows = [(part, name, 10.0) for part in spec.BSON for name in ("pymongo", "mangonel-bson")]
    rows += [(part, name, 10.0) for part in spec.SINGLE for name in ("mangonel", "motor")]
    found = scores.scores(spec.EXPERIMENT, results(*rows))

    assert found["mangonel"]["BSONBench"] == found["motor"]["BSONBench"]
    assert "mangonel-bson" not in found


def test_the_counts_are_those_of_the_specification_where_that_is_asked_for():
    assert len(ALL) == 25
    assert (ALL["run-command"].operations, ALL["ldjson-import"].operations) == (10_000, 100)
    assert (PARTS["run-command"].operations, PARTS["ldjson-import"].operations) == (250, 2)
    assert {part.id for part in spec.EXPERIMENT.parts(Size(True, brief=True))} == PARTS.keys() - set(
        spec.PARALLEL
    )


ONE = Size(parameters={"mebibytes": 1})


@pytest.mark.parametrize("name", ["upload", "upload-delayed"])
def test_a_file_is_stored_with_the_write_concern_that_the_part_states(monkeypatch, bench_of, name):
    seen = []
    monkeypatch.setattr(_players, "named", lambda path: lambda uri, *name: seen.append(uri) or MagicMock())
    target = Target("mongodb://127.0.0.1:1/?directConnection=true", "lab", "files")
    part = next(part for part in gridfs.EXPERIMENT.parts(ONE) if part.id == name)
    gridfs.EXPERIMENT.task(part, bench_of("mangonel-asyncio", target, ONE))

    assert part.write_concern == "w:1"
    assert "w=1" in seen[0].partition("?")[2].split("&")


def test_the_titles_say_how_much_is_read_and_stored():
    for size, words in ((ONE, "1 MiB"), (Size(), "50 MiB"), (Size(quick=True, brief=True), "8 MiB")):
        assert all(words in part.title for part in gridfs.EXPERIMENT.parts(size))
