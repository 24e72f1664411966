"""`mangonel odm`: exit statuses and output."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from mangonel.cli import main
from mangonel.odm import Connection

MODELS = """
from typing import Annotated
from mangonel.odm import Document, Indexed

class Order(Document):
    number: Annotated[int, Indexed(unique=True)]
"""


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    (tmp_path / "shop_models.py").write_text(MODELS)
    monkeypatch.chdir(tmp_path)
    yield "shop_models"
    sys.modules.pop("shop_models", None)
    sys.path.remove(str(tmp_path))


@pytest.mark.parametrize("face", ["blocking"], indirect=True)
def test_indexes_are_shown_then_created(db: Connection, shop: str, server: Any, capsys: Any) -> None:
    host = server.uri.split("/?")[0]
    url = f"{host}/{db.name}"
    assert main(["odm", "indexes", url, shop]) == 1
    assert "to create: number_1" in capsys.readouterr().out
    assert main(["odm", "indexes", url, shop, "--apply"]) == 0
    assert main(["odm", "indexes", url, f"{shop}:Order"]) == 0


@pytest.mark.parametrize("face", ["blocking"], indirect=True)
def test_documents_that_do_not_fit_are_named(db: Connection, shop: str, server: Any, capsys: Any) -> None:
    host = server.uri.split("/?")[0]
    db.database()["order"].insert_many([{"_id": 1, "number": 1}, {"number": "x"}, {"number": 2, "more": 1}])
    assert main(["odm", "check", f"{host}/{db.name}", shop]) == 1
    out = capsys.readouterr().out
    assert "expected int, got str at $.number" in out
    assert "order 1: expected ObjectId, got int at $._id" in out
    assert "3 read, 2 do not fit; unknown keys: more (1)" in out


def test_schema_is_printed_without_a_server(shop: str, capsys: Any) -> None:
    assert main(["odm", "schema", shop]) == 0
    assert json.loads(capsys.readouterr().out)["order"]["required"] == ["number"]


def test_unknown_models_are_refused(shop: str) -> None:
    with pytest.raises(SystemExit):
        main(["odm", "schema", f"{shop}:Nothing"])
