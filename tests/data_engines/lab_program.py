"""The lab's rows for Ray, Dask and Spark: contenders of an engine give the same result, and measure their workers."""

import os
import sys

from mangonel.lab import registry
from mangonel.lab.contender import Target
from mangonel.lab.experiment import Bench, Size
from mangonel.lab.experiments.engines import EXPERIMENT

# Spark would download the connector with Maven.
ABSENT = {"spark-own"}


def main():
    uri, name, _ = sys.argv[1:]
    size = Size(quick=True, parameters={"rows": 2000})
    played = set()
    for part in EXPERIMENT.parts(size):
        if part.id.startswith(("polars", "duckdb", "filter")) or part.id.endswith("-workers"):
            # tests/lab checks results of the other contenders; the other programs here test workers.
            continue
        digests = {}
        for id, contender in registry.contenders().items():
            if part.excludes(contender) or id in ABSENT:
                continue
            assert not contender.unusable(uri), (id, contender.unusable(uri))
            bench = Bench(contender, Target(uri, name, "rows"), size, 1, "")
            task = EXPERIMENT.task(part, bench)
            digests[id] = task.verify()
            # The kernel counts in ticks of 10 ms, and one reading may take less.
            for _ in range(100):
                assert task.act() == 2000
                told = task.extras()
                if told["cpu_ns"] > 0:
                    break
            assert told["cpu_ns"] > 0, id
            assert told["memory"] > 10_000_000
            bench.close()
        assert len(set(digests.values())) == 1, digests
        played |= set(digests)
    assert len(played) == 7, played


if __name__ == "__main__":
    os.environ["PYSPARK_PYTHON"] = sys.executable
    main()
