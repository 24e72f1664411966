"""Ray with two workers: its rows equal those of find(), and dying workers neither lose nor double any."""

import pyarrow
import ray
from common import (
    COUNT,
    ROUTER,
    STAYS,
    DyingReader,
    DyingTarget,
    die_once,
    same,
    sharded,
    started,
    stored,
    writers,
)

import mangonel.ray
from mangonel import _parts_of_tables
from mangonel.ray import Sink, Source


def _same(table):
    return table


def plans_once(database):
    """Fail unless each execution reads the same parts, and queries neither bounds nor columns again."""
    dataset = ray.data.read_datasource(Source(database.rows, STAYS, parts=6))
    database.command("profile", 2)
    for _ in range(2):
        # A dataset keeps the rows that it has read; a dataset derived from it reads again.
        again = dataset.map_batches(_same, batch_format="pyarrow")
        assert len(pyarrow.concat_tables(ray.get(again.to_arrow_refs()))) == COUNT
    database.command("profile", 0)
    read = database.system.profile.find({"ns": f"{database.name}.rows"}).to_list()
    assert {each["op"] for each in read} <= {"query", "getmore"}
    finds = [each["command"] for each in read if each["op"] == "query"]
    # Another sample would have other bounds.
    assert len(finds) >= 12, len(finds)
    assert len({(repr(find.get("min")), repr(find.get("max"))) for find in finds}) == 6


def main():
    _, database, _ = started()
    ray.init(num_cpus=2, object_store_memory=400_000_000, include_dashboard=False, log_to_driver=False)
    _parts_of_tables.PartReader = DyingReader
    mangonel.ray.Target = DyingTarget
    try:
        with writers(database):
            source = Source(database.rows, STAYS, parts=6)
            dataset = ray.data.read_datasource(source)
            tables = ray.get(dataset.to_arrow_refs())
            same(pyarrow.concat_tables(tables).to_pylist(), database.rows)
            by_chunks = ray.data.read_datasource(Source(sharded(database), STAYS, parts=6, connect=ROUTER))
            tables = ray.get(by_chunks.to_arrow_refs())
            same(pyarrow.concat_tables(tables).to_pylist(), database.rows)
        assert len(source.get_read_tasks(99)) == len(source.get_read_tasks(2)) == 6
        plans_once(database)

        def dying(table):
            die_once("before_a_commit")
            return table

        dying_once = dataset.map_batches(dying, batch_format="pyarrow", batch_size=None)
        dying_once.write_datasink(Sink(database.once, once="job"))
        stored(database.once)
        # The job has ended, so other tasks have nothing to store.
        dataset.repartition(3).write_datasink(Sink(database.once, once="job"))
        stored(database.once)
        for _ in range(2):
            dataset.write_datasink(Sink(database.by_key, key="n"))
        stored(database.by_key)
    finally:
        ray.shutdown()


main()
