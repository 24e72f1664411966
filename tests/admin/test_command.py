"""`mangonel admin`: it serves the models of a program until it is ended."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from admin_visitor import Page

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


def test_the_models_of_a_connection_are_served_until_the_command_is_ended(shop: Path, db: Connection) -> None:
    command = [sys.executable, "-m", "mangonel", "admin", "admin_shop:db", "--port", "0"]
    with subprocess.Popen(command, cwd=shop, stdout=subprocess.PIPE, text=True) as running:
        try:
            assert running.stdout is not None
            address = running.stdout.readline().strip()
            password = running.stdout.readline().split()[-1]
            with httpx.Client(base_url=address, timeout=60, follow_redirects=True) as client:
                page = Page(client.get("/").text)
                wrong = client.post(page.action, data={**page.form, "name": "admin", "password": "x"})
                assert wrong.status_code == 403
                page = Page(
                    client.post(page.action, data={**page.form, "name": "admin", "password": password}).text
                )
                assert page.links["Order"] == "/Order"
                page = Page(client.get("/Order/new").text)
                client.post(page.action, data={**page.form, "title": "Tea"})
                assert "Tea" in Page(client.get("/Order").text).links
        finally:
            running.send_signal(signal.SIGTERM)
    assert running.returncode == 0


@pytest.mark.parametrize("place", ["no_such_module", "admin_shop:MODELS", "admin_shop:nothing"])
def test_a_place_without_models_is_told(shop: Path, place: str, capsys: Any, monkeypatch: Any) -> None:
    monkeypatch.syspath_prepend(str(shop))
    with pytest.raises(SystemExit) as ended:
        main(["admin", place])
    assert ended.value.code == 2
    assert "expected" in capsys.readouterr().err
    sys.modules.pop("admin_shop", None)
