"""Dask with two worker processes: its rows are those of find(), a dying worker neither loses nor doubles any."""

import pyarrow
from common import die_once, same, started, stored
from dask.distributed import Client, LocalCluster

from mangonel.dask import read, write


def dying(frame, folder):
    die_once(folder)
    return frame


def main():
    _, database, folder = started()
    with (
        LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster,
        Client(cluster),
    ):
        frame = read(database.rows, parts=6)
        assert frame.npartitions == 6
        table = pyarrow.Table.from_pandas(frame.compute(), preserve_index=False)
        same(table.to_pylist(), database.rows)
        chosen = frame[["n"]]
        assert int(chosen["n"].sum().compute()) == sum(range(len(table)))

        dying_once = frame.map_partitions(dying, folder, meta=frame._meta)
        assert write(dying_once, database.once, once="job") <= len(table)
        stored(database.once)
        for _ in range(2):
            assert write(frame, database.by_key, key="n") == len(table)
        stored(database.by_key)


if __name__ == "__main__":
    main()
