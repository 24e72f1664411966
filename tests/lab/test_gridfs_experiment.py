"""The experiment `gridfs`: everybody stores with the write concern that the part states; titles say how much."""

from __future__ import annotations

from unittest.mock import MagicMock

import pytest

from mangonel.lab import registry
from mangonel.lab.contender import Target
from mangonel.lab.contenders import _players
from mangonel.lab.experiment import Bench, Size
from mangonel.lab.experiments import gridfs

SIZE = Size(parameters={"mebibytes": 1})


@pytest.mark.parametrize("name", ["upload", "upload-delayed"])
def test_a_file_is_stored_with_the_write_concern_that_the_part_states(monkeypatch, name):
    seen = []
    monkeypatch.setattr(_players, "named", lambda path: lambda uri, *name: seen.append(uri) or MagicMock())
    target = Target("mongodb://127.0.0.1:1/?directConnection=true", "lab", "files")
    bench = Bench(registry.contender("mangonel-asyncio"), target, SIZE, 1)
    part = next(part for part in gridfs.EXPERIMENT.parts(SIZE) if part.id == name)
    gridfs.EXPERIMENT.task(part, bench)
    bench.close()

    assert part.write_concern == "w:1"
    assert "w=1" in seen[0].partition("?")[2].split("&")


def test_the_titles_say_how_much_is_read_and_stored():
    for size, words in ((SIZE, "1 MiB"), (Size(), "50 MiB"), (Size(quick=True, brief=True), "8 MiB")):
        assert all(words in part.title for part in gridfs.EXPERIMENT.parts(size))
