"""find(limit=30): a page of posts, as the field's web comparison asks for it, without the web."""

from __future__ import annotations

from collections.abc import Sequence

from mangonel.lab import documents
from mangonel.lab.digest import digest
from mangonel.lab.experiments._parts import CallsTask, Tabled

PAGE = 30


class Find30Task(CallsTask):
    """So many pages to lists."""

    verb = "find_list"

    def arguments(self, count: int) -> Sequence[int]:
        return [PAGE] * count

    def verify(self) -> str:
        page = list(self.adapter.decoded(self.bench.run(self.adapter.find_list(PAGE))))
        expected = [documents.post(number) for number in range(PAGE)]
        if [dict(document) for document in page] != expected:
            raise AssertionError(f"expected the first {PAGE} posts, got {str(page)[:200]}")
        return digest(page)


EXPERIMENT = Tabled("find-30", Find30Task)
