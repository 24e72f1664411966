"""The experiment `gridfs`: everybody stores with the write concern that the part states; titles say how much."""

from __future__ import annotations

import pytest

from mangonel.lab import registry
from mangonel.lab.contender import Target
from mangonel.lab.experiment import Bench, Size
from mangonel.lab.experiments import gridfs

SIZE = Size(parameters={"mebibytes": 1})


class _Shelf:
    async def close(self) -> None:
        """Close nothing."""


@pytest.mark.parametrize("name", ["upload", "upload-delayed"])
def test_a_file_is_stored_with_the_write_concern_that_the_part_states(monkeypatch, name):
    seen = []

    async def open_shelf(contender, uri, database):
        seen.append(uri)
        return _Shelf()

    monkeypatch.setattr(gridfs, "open_shelf", open_shelf)
    contender = registry.contender("mangonel-asyncio")
    bench = Bench(contender, Target("mongodb://127.0.0.1:1/?directConnection=true", "lab", "files"), SIZE, 1)
    part = next(part for part in gridfs.EXPERIMENT.parts(SIZE) if part.id == name)
    gridfs.EXPERIMENT.task(part, bench)
    bench.close()

    assert part.write_concern == "w:1"
    assert "w=1" in seen[0].partition("?")[2].split("&")


def test_the_titles_say_how_much_is_read_and_stored():
    assert all("1 MiB" in part.title for part in gridfs.EXPERIMENT.parts(SIZE))
    assert all("50 MiB" in part.title for part in gridfs.EXPERIMENT.parts(Size()))
    assert all("8 MiB" in part.title for part in gridfs.EXPERIMENT.parts(Size(quick=True, brief=True)))
