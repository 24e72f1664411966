"""The benchmarking specification's tasks: each does what it says, within the time only what is to be timed."""

from __future__ import annotations

import os
import tarfile
from dataclasses import replace
from pathlib import Path

import pytest

from mangonel.lab import documents, registry, scores
from mangonel.lab.contender import Target
from mangonel.lab.experiment import Bench, Size
from mangonel.lab.experiments import _spec_parallel, _spec_tasks, spec
from mangonel.lab.results import Results

pymongo = pytest.importorskip("pymongo", reason="PyMongo, which the lab compares with, is not installed")

TWEETS = "tweets"
STORED = 300


@pytest.fixture(scope="module")
def target(server):
    """A database with the tweets that are read."""
    with pymongo.MongoClient(server.uri) as client:
        tweet = documents.tweet()
        client.test_lab_spec[TWEETS].insert_many([{"_id": n, **tweet} for n in range(1, STORED + 1)])
        yield Target(server.uri, "test_lab_spec", TWEETS)
        client.drop_database("test_lab_spec")


@pytest.fixture(autouse=True)
def little(monkeypatch):
    """Files and collections of little size: what is tested is the work, not its speed."""
    monkeypatch.setattr(_spec_tasks, "TWEETS", STORED)
    monkeypatch.setattr(_spec_tasks, "FILE_BYTES", 600_000)
    monkeypatch.setattr(_spec_parallel, "PHOTO_BYTES", 300_000)
    monkeypatch.setattr(_spec_parallel, "CHUNK", 20)


def play(contender: str, target: Target, *names: str) -> dict[str, str]:
    """Return the digest of each part that the contender takes part in, played on very little."""
    bench = Bench(registry.contender(contender), target, Size(quick=True), seed=1)
    digests = {}
    try:
        for part in spec.EXPERIMENT.parts(Size(quick=True)):
            if part.excludes(bench.contender) or (names and part.id not in names):
                continue
            task = spec.EXPERIMENT.task(replace(part, operations=2), bench)
            digests[part.id] = task.verify()
            task.extras()
            bench.close_adapter()
    finally:
        bench.close()
        _spec_parallel._finish()
        _spec_parallel._helpers.clear()
    return digests


def test_all_tasks_give_every_driver_the_same_answers(target):
    found = {name: play(name, target) for name in ("pymongo", "mangonel", "mangonel-asyncio")}

    codec = set(spec.BSON)
    assert (
        codec | found["mangonel"].keys()
        == found["pymongo"].keys()
        == set(spec.ROWS) - {name for name in spec.ROWS if "client" in name}
    )
    for name in ("mangonel", "mangonel-asyncio"):
        assert found[name] == {part: found["pymongo"][part] for part in found[name]}


def test_a_wrong_answer_is_found_after_every_sample(target):
    bench = Bench(registry.contender("mangonel"), target, Size(quick=True), seed=1)
    parts = {part.id: part for part in spec.EXPERIMENT.parts(Size(quick=True))}
    try:
        task = spec.EXPERIMENT.task(replace(parts["small-doc-bulk-insert"], operations=5), bench)
        task.verify()
        task.arrange()
        with pytest.raises(AssertionError, match="expected documents 5, got 0"):
            task.extras()
    finally:
        bench.close()


@pytest.mark.parametrize("name", ["ldjson-export", "gridfs-multi-download"])
def test_upstream_bug_the_processes_run_before_the_clock_does_and_no_sample_starts_one(
    target, monkeypatch, name
):
    bench = Bench(registry.contender("mangonel"), target, Size(quick=True), seed=1)
    parts = {part.id: part for part in spec.EXPERIMENT.parts(Size(quick=True))}
    try:
        task = spec.EXPERIMENT.task(replace(parts[name], operations=2), bench)
        assert all(helper.process.poll() is None for helper in _spec_parallel._helpers)
        monkeypatch.setattr(_spec_parallel, "Child", None)
        task.arrange()
        assert task.act() == 2
        assert task.extras()["cpu_ns"] > 0
    finally:
        bench.close()
        _spec_parallel._finish()
        _spec_parallel._helpers.clear()


def test_upstream_bug_exported_and_downloaded_files_are_on_the_disk_when_the_clock_stops(
    target, monkeypatch, tmp_path
):
    import asyncio

    from mangonel.lab.contenders import _players

    for name in ("mangonel", "pymongo", "mangonel-asyncio"):
        synced: list[int] = []
        monkeypatch.setattr(os, "fsync", synced.append)

        async def files(name: str = name) -> None:
            player = await _players.open_player(name, target)

            async def call(verb, *arguments):
                result = getattr(player, verb)(*arguments)
                return await result if asyncio.iscoroutine(result) else result

            await call("fill_lines", documents.message(), 3)
            await call("export_file", 0, 3, str(tmp_path / "lines"))
            await call("empty_bucket")
            file_id = await call("upload", b"content")
            await call("download_file", file_id, str(tmp_path / "file"))
            await call("close")

        asyncio.run(files())
        assert len(synced) == 2, name
        assert len((tmp_path / "lines").read_text().splitlines()) == 3
        assert (tmp_path / "file").read_bytes() == b"content"


@pytest.mark.parametrize("name", ["mangonel", "pymongo", "mangonel-asyncio"])
def test_upstream_bug_an_export_finds_its_range_by_an_index(target, tmp_path, name):
    import asyncio

    from mangonel.lab.contenders import _players

    async def export() -> None:
        player = await _players.open_player(name, target)

        async def call(verb, *arguments):
            result = getattr(player, verb)(*arguments)
            return await result if asyncio.iscoroutine(result) else result

        await call("fill_lines", documents.message(), 40)
        client.test_lab_spec.command("profile", 2)
        await call("export_file", 20, 20, str(tmp_path / "lines"))
        client.test_lab_spec.command("profile", 0)
        await call("close")

    with pymongo.MongoClient(target.uri) as client:
        profile = client.test_lab_spec["system.profile"]
        profile.drop()
        asyncio.run(export())
        plans = [each["planSummary"] for each in profile.find({"command.find": {"$exists": True}})]
    assert plans
    assert all(plan.startswith("IXSCAN") for plan in plans), plans


@pytest.mark.parametrize("name", ["gridfs", "spec"])
def test_upstream_bug_a_file_for_gridfs_does_not_compress(name):
    import zlib

    from mangonel.lab.experiments import gridfs

    data = {"gridfs": gridfs, "spec": _spec_tasks}[name].content(200_000)
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
        "flat_bson.json": spec.FLAT,
        "deep_bson.json": spec.DEEP,
        "full_bson.json": spec.FULL,
        "tweet.json": spec.TWEET,
        "small_doc.json": spec.SMALL,
        "large_doc.json": spec.LARGE,
        "gridfs_large.bin": spec.FILE,
    }
    assert {name: sizes[name] for name in published} == published


def results(*rows: tuple[str, str, float]) -> Results:
    """Return results of parts that took so many µs an operation, by contender."""
    cells = []
    for part, contender, wall_us in rows:
        sample = {"wall_ns": wall_us * 1000, "ops": 1, "cpu_ns": 1, "peak_rss": 1, "extras": {}}
        cells.append(
            {
                "experiment": "spec",
                "version": 1,
                "part": part,
                "title": part,
                "unit": "operation",
                "write_concern": "",
                "judge": "wall",
                "contender": contender,
                "failures": [],
                "bytes_each": spec.ROWS[part].bytes_each,
                "rounds": [{"round": number, "samples": [sample]} for number in range(3)],
            }
        )
    return Results({"plan": {"experiments": ["spec"]}, "cells": cells, "missing": []})


def test_a_score_is_the_mean_of_megabytes_per_second():
    rows = [(part, "pymongo", spec.ROWS[part].bytes_each / 10) for part in spec.READS]
    rows += [(part, "pymongo", spec.ROWS[part].bytes_each / 30) for part in spec.WRITES]
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
