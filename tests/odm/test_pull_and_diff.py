"""`mangonel odm pull` writes models that type checkers accept and that read the stored data; `diff` compares them."""

from __future__ import annotations

import datetime as dt
import sys
import uuid
from pathlib import Path
from typing import Any

import pytest

from mangonel import MongoClient
from mangonel.bson import CodecOptions, Decimal128, Int64, ObjectId, Regex, UuidRepresentation
from mangonel.cli import main
from tools.type_checkers import mypy_reports


@pytest.fixture
def database(server: Any, database_name: str) -> Any:
    options: CodecOptions[Any] = CodecOptions(uuid_representation=UuidRepresentation.STANDARD)
    with MongoClient(server.uri) as client:
        yield client.get_database(database_name, codec_options=options)
        client.drop_database(database_name)


def url(server: Any, database: Any) -> str:
    return f"{server.uri.split('/?')[0]}/{database.name}"


DOCUMENTS: list[dict[str, Any]] = [
    {
        "name": "a",
        "n": 1,
        "ratio": 1,
        "class": "x",
        "with space": 1,
        "save": True,
        "address": {"city": "Oslo", "zip": None},
        "lines": [{"item": "tea", "price": Decimal128("1.5")}, {"item": "x", "more": {"deep": [1, 2.5]}}],
        "where": {"type": "Point", "coordinates": [1.0, 2.0]},
        "when": dt.datetime(2024, 1, 1),
        "key": uuid.UUID(int=1),
        "blob": b"x",
        "mixed": "text",
        "pattern": Regex("^a"),
        "votes": {str(ObjectId()): 1, str(ObjectId()): 2},
        "empty": [],
        "nothing": None,
        "big": Int64(2**40),
    },
    {"name": "b", "n": 2, "ratio": 0.5, "lines": [], "mixed": 3, "votes": {}, "address": {"city": "Rome"}},
    {
        "name": "c",
        "n": 3,
        "ratio": 0.5,
        "lines": [],
        "mixed": {"an": "object"},
        "address": {"city": "Bonn", "zip": "1"},
    },
]


def test_models_are_written_that_checkers_accept_and_that_read_every_document(
    server: Any, database: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    database.shop_orders.insert_many(DOCUMENTS)
    database["odd-name"].insert_many([{"_id": "text", "a": 1}, {"_id": "other"}])
    path = tmp_path / "pulled_models.py"
    assert main(["odm", "pull", url(server, database), "--output", str(path)]) == 0
    # The command's own module hides no name of the mapper.
    from mangonel.odm import pull

    assert callable(pull)
    errors = capsys.readouterr().err
    assert "shop_orders: 3 read, 0 do not fit\n" in errors
    text = path.read_text()
    assert "class ShopOrders(Document):" in text
    assert "    address: ShopOrdersAddress\n" in text
    assert "    lines: list[ShopOrdersLines]\n" in text
    assert "    ratio: float\n" in text
    assert '    class_: str | None = field(default=None, key="class")\n' in text
    assert "    votes: dict[str, int] | None = None\n" in text
    assert "    where: Point | None = None\n" in text
    assert '    id: str = field(key="_id")' in text
    assert mypy_reports(path) == []


def test_documents_that_the_written_models_cannot_read_are_named(
    server: Any, database: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    database.things.insert_many([{"_id": n, "n": n} for n in range(50)])
    database.things.insert_one({"_id": 50, "n": "odd"})
    shown = 0
    # The sample may happen to contain the exception; then the model fits it.
    for _ in range(20):
        if main(["odm", "pull", url(server, database), "--sample", "5"]) == 1:
            shown += 1
            assert "things 50: expected int, got str at $.n" in capsys.readouterr().err
            break
        capsys.readouterr()
    assert shown == 1


MODELS = """
from typing import Annotated
from mangonel.odm import Document, Indexed

class Order(Document):
    number: Annotated[int, Indexed(unique=True)]
    gone: str | None = None
"""


def test_a_model_is_compared_with_indexes_validator_and_documents(
    server: Any,
    database: Any,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    (tmp_path / "diff_models.py").write_text(MODELS)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    place = url(server, database)
    assert main(["odm", "diff", place, "diff_models"]) == 1
    assert "order: collection: missing" in capsys.readouterr().out
    database.create_collection("order", validator={"$jsonSchema": {"bsonType": "object"}})
    database.order.insert_many([{"number": 1, "more": 1}, {"number": "two"}])
    assert main(["odm", "diff", place, "diff_models"]) == 1
    shown = capsys.readouterr().out
    assert "index number_1: missing" in shown
    assert "validator: another than the model's schema" in shown
    assert "$.number: expected int, got str: 1 of 2 documents do not fit" in shown
    assert "more: 1 of 2 documents have this key, which no field has" in shown
    assert "$.gone: in no document of 2" in shown
    from mangonel.odm import connect

    connection = connect(place)
    try:
        model = sys.modules["diff_models"].Order
        database.order.drop()
        model.create_collection(validate=True)
        model.sync_indexes()
        model(number=1, gone="x").save()
        assert main(["odm", "diff", place, "diff_models"]) == 0
    finally:
        connection.close()
        sys.modules.pop("diff_models", None)
