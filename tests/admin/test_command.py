"""`mangonel admin` serves a program's models until it is ended."""

from __future__ import annotations

import datetime as dt
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from admin_visitor import Page

from mangonel.bson import Decimal128
from mangonel.cli import main
from mangonel.odm import Connection
from mangonel.server import Server

httpx = pytest.importorskip("httpx")

MODELS = """
from mangonel.odm import Document, connect

db = connect({uri!r}, database={name!r})


class Order(Document):
    title: str
"""


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, server: Server, db: Connection) -> Path:
    (tmp_path / "admin_shop.py").write_text(MODELS.format(uri=server.uri, name=db.name))
    monkeypatch.chdir(tmp_path)
    return tmp_path


@contextmanager
def served(folder: Path, place: str, **environment: str) -> Iterator[tuple[Any, str]]:
    """Run the command; yield a client, and the last line that it printed."""
    command = [sys.executable, "-m", "mangonel", "admin", place, "--port", "0"]
    given = {**os.environ, **environment}
    with subprocess.Popen(command, cwd=folder, env=given, stdout=subprocess.PIPE, text=True) as running:
        try:
            assert running.stdout is not None
            address = running.stdout.readline().strip()
            said = "" if environment else running.stdout.readline()
            with httpx.Client(base_url=address, timeout=60, follow_redirects=True, verify=False) as client:
                yield client, said
        finally:
            running.send_signal(signal.SIGTERM)
    assert running.returncode == 0


def test_the_models_of_a_connection_are_served_until_the_command_is_ended(shop: Path) -> None:
    with served(shop, "admin_shop:db") as (client, said):
        password = said.split()[-1]
        page = Page(client.get("/").text)
        wrong = client.post(page.action, data={**page.form, "name": "admin", "password": "x"})
        assert wrong.status_code == 403
        page = Page(client.post(page.action, data={**page.form, "name": "admin", "password": password}).text)
        assert page.links["Order"] == "/Order"
        page = Page(client.get("/Order/new").text)
        client.post(page.action, data={**page.form, "title": "Tea"})
        assert "Tea" in Page(client.get("/Order").text).links


def test_the_example_shop_shows_orders_with_their_history(server: Server, db: Connection) -> None:
    folder = Path(__file__).parents[2] / "examples" / "odm_shop"
    uri = server.uri.replace("/?", f"/{db.name}?")
    with served(folder, "admin:pages", MONGODB_URI=uri, ADMIN_PASSWORD="right") as (client, _):
        page = Page(client.get("/").text)
        client.post(page.action, data={**page.form, "name": "ada", "password": "right"})
        orders, customers = db.client[db.name].order, db.client[db.name].customer
        customer = customers.insert_one({"name": "Max", "email": "max@example.org"}).inserted_id
        order = {"customer": customer, "lines": [], "total": Decimal128("3.50"), "state": "new", "number": 1}
        now = dt.datetime.now(dt.UTC)
        id = orders.insert_one({**order, "created_at": now, "updated_at": now}).inserted_id
        assert "Max" in Page(client.get("/Order").text).links
        page = Page(client.get(f"/Order/document?id={id}").text)
        assert "total" not in page.form
        client.post(page.action, data={**page.form, "state": "1"})
        assert orders.find_one(id)["state"] == "shipped"
        assert "ada" in Page(client.get(f"/Order/history?id={id}").text).text
        assert client.get("/Order/new").status_code == 403


@pytest.mark.parametrize("place", ["no_such_module", "admin_shop:MODELS", "admin_shop:nothing"])
def test_a_place_without_models_is_told(shop: Path, place: str, capsys: Any, monkeypatch: Any) -> None:
    monkeypatch.syspath_prepend(str(shop))
    with pytest.raises(SystemExit) as ended:
        main(["admin", place])
    assert ended.value.code == 2
    assert "expected" in capsys.readouterr().err
    sys.modules.pop("admin_shop", None)
