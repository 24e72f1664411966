"""Wrongly written hooks are refused at their definition, or before anything is stored."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from mangonel.odm import Connection, Document, after, around, before, inc, listen

seen: list[Any] = []


class Careful(Document):
    n: int = 0

    @around("save")
    def _maybe(self) -> Iterator[None]:
        if self.n < 0:
            return
        yield

    @after("commit")
    def _committed(self) -> None:
        seen.append(self.n)
        if self.n == 1:
            raise ValueError("the first")


@pytest.mark.parametrize("mark", [before, after, around])
def test_a_hook_without_an_event_is_refused(mark: Callable[..., Any]) -> None:
    with pytest.raises(TypeError, match=f"expected an event for {mark.__name__}"):
        mark()


def test_an_error_lists_the_events_that_there_are_at_that_moment() -> None:
    with pytest.raises(
        ValueError, match=r"expected events among delete, insert, query_delete, .*'commit'$"
    ) as caught:
        before("commit")
    assert "rollback" not in str(caught.value)


def test_hooks_of_documents_are_methods_and_those_of_queries_class_methods() -> None:
    with pytest.raises(
        TypeError, match=r"expected a method with self for the hook Static\._hook, got staticm"
    ):

        class Static(Document):
            @before("save")
            @staticmethod
            def _hook() -> None: ...

    with pytest.raises(TypeError, match=r"expected a class method for the hook Plain._hook, got function"):

        class Plain(Document):
            @before("query_update")
            def _hook(self, query: Any, update: Any) -> None: ...

    with pytest.raises(
        TypeError, match=r"expected a method with self for the hook OfClass._hook, got classm"
    ):

        class OfClass(Document):
            @classmethod
            @before("save")
            def _hook(cls) -> None: ...


def test_a_generator_that_does_not_yield_stores_nothing(db: Connection, face: Any) -> None:
    with pytest.raises(
        TypeError, match=r"expected one yield in the hook '_maybe' .* got none: nothing was done"
    ):
        face.save(Careful(n=-1))
    assert face.call(Careful.find(), "count") == 0


def test_a_hook_that_fails_after_the_commit_keeps_no_other_from_running(db: Connection, face: Any) -> None:
    documents = [Careful(n=n) for n in (0, 1, 2)]

    def blocking() -> None:
        with db.transaction():
            for document in documents:
                document.save()

    async def asynchronous() -> None:
        async with db.transaction():
            for document in documents:
                await document.asave()

    seen.clear()
    with pytest.raises(ValueError, match="the first"):
        face.wait(asynchronous()) if face.is_async else blocking()
    assert seen == [0, 1, 2]
    assert face.call(Careful.find(), "count") == 3


def test_an_update_and_a_deletion_of_a_document_have_hooks_of_the_commit(db: Connection, face: Any) -> None:
    document = Careful(n=5)
    face.save(document)
    seen.clear()
    face.call(document, "update", inc(Careful.n))
    assert seen == [6]
    face.call(document, "delete")
    assert seen == [6, 6]


@pytest.mark.parametrize(
    ("function", "model", "expected"),
    [(3, None, "expected a function to call after 'save', got 3"), (print, 3, "expected a document class")],
)
def test_what_cannot_be_called_or_has_no_documents_is_not_listened_to(
    function: Any, model: Any, expected: str, db: Connection, face: Any
) -> None:
    with pytest.raises(TypeError, match=expected):
        listen("after", "save", function, model)
    stop = listen("after", "save", lambda document: seen.append("saved"))
    seen.clear()
    face.save(Careful(n=0))
    stop()
    assert seen == ["saved", 0]
