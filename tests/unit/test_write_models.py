"""Models of bulk writes: plain ones are made without their `__init__`, and equal those that it makes."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import pytest

from mangonel import DeleteMany, DeleteOne, InsertOne, ReplaceOne, UpdateMany, UpdateOne
from tools.frames import entered

ARGUMENTS: dict[type[Any], dict[str, Any]] = {
    InsertOne: {"document": {"_id": 1}},
    UpdateOne: {"filter": {"_id": 1}, "update": {"$set": {"n": 1}}},
    UpdateMany: {"filter": {"_id": 1}, "update": {"$set": {"n": 1}}},
    ReplaceOne: {"filter": {"_id": 1}, "replacement": {"n": 1}},
    DeleteOne: {"filter": {"_id": 1}},
    DeleteMany: {"filter": {"_id": 1}},
}
MODELS = pytest.mark.parametrize("model", ARGUMENTS, ids=lambda model: model.__name__)


@MODELS
def test_a_plain_model_is_made_without_a_frame(model: Any) -> None:
    arguments = list(ARGUMENTS[model].values())
    assert entered(lambda: model(*arguments)) == []


@MODELS
def test_a_plain_model_is_what_its_init_makes(model: Any) -> None:
    plain, made = model(*ARGUMENTS[model].values()), model(**ARGUMENTS[model])
    assert type(plain) is model
    assert plain == made
    assert repr(plain) == repr(made)
    assert (plain._namespace, plain._options) == (None, None)
    assert pickle.loads(pickle.dumps(plain)) == copy.deepcopy(plain) == made


@MODELS
def test_wrong_arguments_of_a_model_are_refused(model: Any) -> None:
    arguments = list(ARGUMENTS[model].values())
    for wrong in ([], [*arguments, *[None] * 9]):
        with pytest.raises(TypeError, match="argument"):
            model(*wrong)
    with pytest.raises(TypeError, match="unexpected keyword argument 'nope'"):
        model(*arguments, nope=1)
    if model is not InsertOne:
        with pytest.raises(TypeError, match="filter must be"):
            model(5, *arguments[1:])


def test_options_of_a_model_are_taken_by_place_and_by_name() -> None:
    made = UpdateOne({"_id": 1}, {"$set": {"n": 1}}, True, hint="_id_")
    assert (made._upsert, made._hint) == (True, "_id_")
    assert DeleteOne({"_id": 1}, None, "_id_")._hint == "_id_"
    assert InsertOne({}, "shop.orders")._namespace == "shop.orders"
    assert InsertOne[dict[str, Any]]({"_id": 1}) == InsertOne({"_id": 1})


def test_a_subclass_of_a_model_is_made_by_its_own_init() -> None:
    class Named(UpdateOne):
        def __init__(self, name: str, value: int) -> None:
            super().__init__({"_id": name}, {"$set": {"n": value}})

    assert (Named("a", 1)._filter, Named("a", 1)._doc) == ({"_id": "a"}, {"$set": {"n": 1}})


def test_a_replaced_init_of_a_model_is_called(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[Any] = []
    usual: Any = UpdateOne.__init__

    def noted(self: Any, *arguments: Any) -> None:
        seen.extend(arguments)
        usual(self, *arguments)

    monkeypatch.setattr(UpdateOne, "__init__", noted)
    made = UpdateOne({"_id": 1}, {"$set": {"n": 1}})
    assert seen == [made._filter, made._doc]
