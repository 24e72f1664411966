"""Dask with two worker processes: its rows equal those of find(), and dying workers neither lose nor double any."""

import pyarrow
from common import ROUTER, STAYS, DyingReader, DyingTarget, die_once, same, sharded, started, stored, writers
from dask.distributed import Client, LocalCluster

import mangonel.dask
from mangonel import _parts_of_tables
from mangonel.dask import read, write


def dying(frame):
    die_once("before_a_commit")
    return frame


def sees_what_is_new(database):
    """Fail unless a frame includes documents stored after another frame of the same collection was computed."""
    kept = []
    for count in (1, 2):
        database.new.insert_one({"_id": count})
        kept.append(read(database.new).persist())
        assert [len(frame) for frame in kept] == list(range(1, count + 1))


def main():
    _, database, _ = started()
    _parts_of_tables.PartReader = DyingReader
    mangonel.dask.Target = DyingTarget
    with (
        LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster,
        Client(cluster),
    ):
        with writers(database):
            frame = read(database.rows, STAYS, parts=6)
            assert frame.npartitions == 6
            table = pyarrow.Table.from_pandas(frame.compute(), preserve_index=False)
            same(table.to_pylist(), database.rows)
            by_chunks = read(sharded(database), STAYS, parts=6, connect=ROUTER)
            table = pyarrow.Table.from_pandas(by_chunks.compute(), preserve_index=False)
            same(table.to_pylist(), database.rows)
        chosen = frame[["n"]]
        assert int(chosen["n"].sum().compute()) == sum(range(len(table)))

        sees_what_is_new(database)
        dying_once = frame.map_partitions(dying, meta=frame._meta)
        assert write(dying_once, database.once, once="job") <= len(table)
        stored(database.once)
        # The job has ended, so a repetition with other partitions stores nothing new.
        assert write(frame.repartition(npartitions=3), database.once, once="job") == 0
        stored(database.once)
        for _ in range(2):
            assert write(frame, database.by_key, key="n") == len(table)
        stored(database.by_key)


if __name__ == "__main__":
    main()
