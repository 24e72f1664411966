"""The classes of both faces have the methods of PyMongo's, with the same arguments and defaults."""

from __future__ import annotations

import inspect
from typing import Any

import pymongo
import pytest
from pymongo.asynchronous import collection, command_cursor, cursor, database

from mangonel import api

CLASSES: list[tuple[type[Any], type[Any]]] = [
    (api.MongoClient, pymongo.MongoClient),
    (api.Database, pymongo.database.Database),
    (api.Collection, pymongo.collection.Collection),
    (api.Cursor, pymongo.cursor.Cursor),
    (api.RawBatchCursor, pymongo.cursor.RawBatchCursor),
    (api.CommandCursor, pymongo.command_cursor.CommandCursor),
    (api.RawBatchCommandCursor, pymongo.command_cursor.RawBatchCommandCursor),
    (api.AsyncMongoClient, pymongo.AsyncMongoClient),
    (api.AsyncDatabase, database.AsyncDatabase),
    (api.AsyncCollection, collection.AsyncCollection),
    (api.AsyncCursor, cursor.AsyncCursor),
    (api.AsyncRawBatchCursor, cursor.AsyncRawBatchCursor),
    (api.AsyncCommandCursor, command_cursor.AsyncCommandCursor),
    (api.AsyncRawBatchCommandCursor, command_cursor.AsyncRawBatchCommandCursor),
]

# PyMongo's clients compare themselves by this undocumented attribute.
PRIVATE = {"eq_props"}

# Keywords that PyMongo lacks.
BEYOND = {"timeout_ms", "timeout_mode", "default_timeout_ms"}


def _public(kind: type[Any]) -> set[str]:
    return {name for name in dir(kind) if not name.startswith("_")}


@pytest.mark.parametrize(("ours", "theirs"), CLASSES, ids=lambda kind: kind.__name__)
def test_no_method_or_property_is_missing(ours: type[Any], theirs: type[Any]) -> None:
    assert _public(theirs) - _public(ours) - PRIVATE == set()


@pytest.mark.parametrize(("ours", "theirs"), CLASSES, ids=lambda kind: kind.__name__)
def test_arguments_and_defaults_are_those_of_pymongo(ours: type[Any], theirs: type[Any]) -> None:
    for name in sorted(_public(theirs) & _public(ours)):
        mine, peer = inspect.getattr_static(ours, name), inspect.getattr_static(theirs, name)
        assert isinstance(mine, property) == isinstance(peer, property), name
        if inspect.isfunction(mine) and inspect.isfunction(peer):
            assert _parameters(mine) == _parameters(peer), name


def _parameters(function: Any) -> list[tuple[str, Any, str]]:
    parameters = inspect.signature(function).parameters.values()
    return [
        (parameter.name, parameter.kind, repr(parameter.default))
        for parameter in parameters
        if parameter.name not in BEYOND
    ]
