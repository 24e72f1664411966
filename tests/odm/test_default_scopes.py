"""Default scopes: those of a model and of its bases apply together, for each way to read."""

from __future__ import annotations

from typing import Any

import pytest

from mangonel.odm import Connection, Document, SoftDelete
from odm.conftest import Face


class Public(Document):
    __abstract__ = True
    hidden: bool = False

    @staticmethod
    def __default_scope__(query: Any) -> Any:
        return query.find({"hidden": False})


class Letter(SoftDelete):
    text: str
    lang: str = "en"

    @classmethod
    def __default_scope__(cls, query: Any) -> Any:
        return query.find(cls.lang == "en")


class Notice(Public, SoftDelete):
    text: str


class Whole(Notice):
    __collection__ = "notice"
    __default_scope__ = None


def texts(face: Face, model: Any) -> list[str]:
    return [each.text for each in face.call(model.find().sort("text"), "all")]


def test_a_scope_of_its_own_does_not_bring_deleted_documents_back(db: Connection, face: Face):
    kept, gone, other = Letter(text="kept"), Letter(text="gone"), Letter(text="other", lang="no")
    face.save(kept, gone, other)
    face.call(gone, "delete")
    assert texts(face, Letter) == ["kept"]
    assert [face.call(Letter, "get_or_none", each.id) is None for each in (kept, gone, other)] == [
        False,
        True,
        True,
    ]
    assert face.call(Letter.unscoped(), "count") == 3


def test_the_scopes_of_all_bases_hold_and_none_removes_them(db: Connection, face: Face):
    shown, hidden, gone = Notice(text="shown"), Notice(text="hidden", hidden=True), Notice(text="gone")
    face.save(shown, hidden, gone)
    face.call(gone, "delete")
    assert texts(face, Notice) == ["shown"]
    assert texts(face, Whole) == ["gone", "hidden", "shown"]


def test_a_scope_that_returns_no_query_is_an_error_that_says_so(db: Connection):
    class Forgetful(Document):
        @staticmethod
        def __default_scope__(query: Any) -> Any:
            query.find({"n": 1})

    with pytest.raises(
        TypeError, match=r"expected Forgetful.__default_scope__ to return a query, got NoneType"
    ):
        Forgetful.find()
