"""Runs the examples of docstrings; `python tests/docs/examples.py` lists those that do not run.

An example uses what every reader would take for granted: a client, a database `shop` with some orders, a session, files
and models, all of them new for each example. What it shows is compared, with `...` for anything.
"""

from __future__ import annotations

import ast
import asyncio
import contextlib
import doctest
import importlib
import inspect
import io
import os
import re
import signal
import sys
import tempfile
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tools"))

import docs_public

import mangonel
from docs.docstrings import things
from docs.pages import here
from mangonel import odm
from mangonel.websessions import RequestView, WebSessions

LIST = Path(__file__).with_name("examples-not-run.txt")
# For one example: some start a server. When the list is written, a shorter limit finds endless ones sooner.
SECONDS = 60.0 if len(sys.argv) > 1 else 5.0
CHECKER = doctest.OutputChecker()


@cache
def examples() -> dict[str, list[doctest.Example]]:
    """Return the examples of public names; an asyncio twin uses the blocking one's."""
    found: dict[str, list[doctest.Example]] = {}
    seen: set[str] = set()
    texts = {name: thing.text for name, thing in things().items()}
    modules = {entry for _, entries in docs_public.PAGES.values() for entry in entries}
    for name in sorted(modules - set(texts)):
        texts[name] = inspect.getdoc(importlib.import_module(name)) or ""
    for name, text in texts.items():
        if ">>>" in text and text not in seen:
            seen.add(text)
            found[name] = doctest.DocTestParser().get_examples(text)
    return found


@cache
def every_name() -> dict[str, Any]:
    """Return the names that `from ... import *` of all public modules bring; blocking classes win over their twins."""
    import datetime
    import decimal
    import uuid
    import warnings
    from fractions import Fraction
    from typing import Annotated

    import duckdb
    import polars
    from fastapi import Depends
    from starlette.applications import Starlette
    from starlette.responses import JSONResponse
    from starlette.routing import Mount
    from tornado.testing import AsyncHTTPTestCase
    from tornado.web import Application, RequestHandler

    from mangonel import event_loggers, monitoring, server

    others = (Depends, Starlette, JSONResponse, Mount, AsyncHTTPTestCase, Application, RequestHandler)
    names: dict[str, Any] = {value.__name__: value for value in others}
    names |= {"monitoring": monitoring, "event_loggers": event_loggers, "server": server}
    names |= {
        "datetime": datetime,
        "decimal": decimal,
        "Decimal": decimal.Decimal,
        "uuid": uuid,
        "warnings": warnings,
        "polars": polars,
        "duckdb": duckdb,
    }
    names |= {"Fraction": Fraction, "Annotated": Annotated, "mangonel": mangonel, "bson": mangonel.bson}
    for name, thing in things().items():
        if thing.owner is None:
            names.setdefault(name.rpartition(".")[2], thing.value)
    names |= {"MongoClient": mangonel.MongoClient, "ReadPreference": mangonel.ReadPreference}
    names |= {name: getattr(mangonel.bson, name) for name in mangonel.bson.__all__}
    return names | {model.__name__: model for model in (Address, User, Order, Comment, Post, Cafe)}


class Address(odm.Embedded):
    city: str = ""


class User(odm.Document):
    __collection__ = "people"
    name: str
    age: int = 0
    email: str = ""
    status: str = "active"
    tags: list[str] = odm.field(default_factory=list)
    address: Address | None = None
    posts: odm.Many[Post] = odm.many(by="author")


class Order(odm.Document):
    buyer: odm.Ref[User] | None = None
    total: float = 0.0
    items: list[str] = odm.field(default_factory=list)


class Comment(odm.Embedded):
    likes: int = 0
    text: str = ""


class Post(odm.Document):
    title: str
    likes: int = 0
    tags: list[str] = odm.field(default_factory=list)
    comments: list[Comment] = odm.field(default_factory=list)
    readers: odm.Refs[User] = odm.field(default_factory=list)
    author: odm.Ref[User] | None = None


class Cafe(odm.Document):
    loc: odm.Point
    __indexes__ = (odm.Index("loc", kind="2dsphere"),)


FILES = {"fs", "bucket", "file_id", "target", "source"}
MODELS = {"db", "user", "post", "User", "Order", "Post", "Cafe", "Document", "File", "connection"}
KEYS = {
    "key_id",
    "get_keys",
    "get_key_by_alt_name",
    "rewrap_many_data_key",
    "create_data_key",
    "encrypt",
    "decrypt",
}
STORED = (
    {"client", "orders", "users", "stock", "counters", "cursor", "session", "other"} | FILES | MODELS | KEYS
)

# An example with one of these may distinguish an empty collection from a missing one.
LAID_OUT = {
    "create_collection",
    "create_index",
    "create_indexes",
    "drop",
    "drop_collection",
    "drop_index",
    "list_collections",
    "list_collection_names",
    "list_indexes",
    "index_information",
    "options",
    "rename",
    "stats",
    "sync",
}
# Initial collections of most examples, and their indexes.
KEPT = {name: {"_id_"} for name in ("orders", "users", "people", "post")}
KEPT |= {"fs.files": {"_id_", "filename_1_uploadDate_1"}, "fs.chunks": {"_id_", "files_id_1_n_1"}}

clients: list[Any] = []


def connected(address: str) -> Any:
    """Return the client that the examples share until one of them closes it. Its writes do not wait for the journal."""
    with contextlib.suppress(mangonel.errors.InvalidOperation, IndexError):
        clients[-1].admin.command("ping")
        return clients[-1]
    clients.append(mangonel.MongoClient(f"mongodb://{address}/?w=1"))
    return clients[-1]


def django_names(words: set[str]) -> dict[str, Any]:
    """Return the names for examples of Django's engine."""
    if not words & {"SessionStore", "SessionMiddleware", "request"}:
        return {}
    from django.conf import settings

    from mangonel.websessions.frameworks.django import ENGINE, SessionStore

    if not settings.configured:
        settings.configure(WEBSESSIONS=WebSessions("memory:"), SESSION_ENGINE=ENGINE)
    request = SimpleNamespace(session=SessionStore())
    return {"request": request, "settings": settings, "get_response": lambda request: None}


@contextlib.contextmanager
def shop(address: str, words: set[str]) -> Iterator[dict[str, Any]]:
    """Open a shop: return the names for examples, and fill the database for those that occur among `words`."""
    sessions = WebSessions("memory:")
    names = every_name() | {"sessions": sessions, "websession": sessions.blocking.load(RequestView())}
    names |= django_names(words)
    if not words & STORED:
        yield names
        return
    client = connected(address)
    shop = client.shop
    clear(shop, is_new=bool(words & LAID_OUT))
    # Documents that the example stores itself must not exist before.
    if not words & {"insert_one", "insert_many", "InsertOne", "upsert"}:
        shop.orders.insert_many(
            [{"_id": 1, "total": 9.5, "customer": "Ada"}, {"_id": 2, "total": 4.0, "customer": "Eve"}]
        )
        shop.users.insert_one({"_id": 1, "name": "Ada", "email": "ada@example.org"})
    names |= {"client": client, "orders": shop.orders, "users": shop.users, "stock": shop.stock}
    names |= {"counters": shop.counters, "cursor": shop.orders.find()}
    if words & FILES:
        bucket = every_name()["GridFSBucket"](shop)
        file_id = bucket.upload_from_stream("greeting", b"hello")
        names |= {"fs": every_name()["GridFS"](shop), "bucket": bucket, "file_id": file_id}
        names |= {"target": bucket.open_upload_stream("greeting")}
        names |= {"source": bucket.open_download_stream(file_id)}
    if words & KEYS:
        names |= key_vault(client)
    if words & MODELS:
        names["db"] = odm.connect(client=client, database="shop")
        user = User(
            name="Ada", age=36, email="ada@example.org", tags=["admin"], address=Address(city="London")
        )
        User.insert_many([user, User(name="Eve", age=24, email="eve@example.org")])
        post = Post(
            title="Bread", likes=3, tags=["food"], comments=[Comment(likes=4, text="yes")], author=user
        )
        names |= {"user": user, "post": post.save()}
    with client.start_session() as session, client.start_session() as other:
        yield names | {"session": session, "other": other}


def clear(database: Any, is_new: bool) -> None:
    """Empty the initial collections, and drop all others: new collections take the server ten times as long."""
    for found in list(database.list_collections()):
        collection = database[found["name"]]
        kept = not is_new and KEPT.get(collection.name) == set(collection.index_information())
        if kept and not found["options"]:
            collection.delete_many({})
        else:
            collection.drop()


def key_vault(client: Any) -> dict[str, Any]:
    """Return a key vault with one data key, and a value encrypted with it."""
    client.drop_database("keys")
    keys = every_name()["ClientEncryption"](
        {"local": {"key": os.urandom(96)}}, "keys.vault", client, mangonel.bson.CodecOptions()
    )
    key_id = keys.create_data_key("local", key_alt_names=["salaries"])
    salary = keys.encrypt(4200, every_name()["Algorithm"].AEAD_AES_256_CBC_HMAC_SHA_512_Random, key_id)
    return {"keys": keys, "key_id": key_id, "employee": {"salary": salary}, "os": os}


def run(name: str, address: str) -> str | None:
    """Run a name's examples; return their faults."""

    def late(*_: object) -> None:
        raise TimeoutError(f"no end after {SECONDS} s")

    parts = examples()[name]
    words = set(re.findall(r"\w+", " ".join(part.source for part in parts)))
    shown: list[object] = []
    before, place = sys.displayhook, os.getcwd()
    signal.signal(signal.SIGALRM, late)
    with tempfile.TemporaryDirectory() as folder, shop(address, words) as names, asyncio.Runner() as runner:
        os.chdir(folder)
        sys.displayhook = lambda value: shown.append(value) if value is None else print(repr(value))
        signal.setitimer(signal.ITIMER_REAL, SECONDS)
        try:
            for example in parts:
                printed = io.StringIO()
                try:
                    with contextlib.redirect_stdout(printed):
                        one(here(example.source, address), names, runner)
                except Exception as error:
                    if type(error).__name__ not in (example.exc_msg or "").partition(":")[0]:
                        return f"{example.source}{type(error).__name__}: {error}"
                    continue
                if example.want and not CHECKER.check_output(
                    example.want, printed.getvalue(), doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
                ):
                    return f"{example.source}shows {printed.getvalue()}and not {example.want}"
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            sys.displayhook = before
            os.chdir(place)
    return None


def one(source: str, names: dict[str, Any], runner: asyncio.Runner) -> None:
    flags = ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
    code = compile(source, "<example>", "single", flags, dont_inherit=True)
    if code.co_flags & inspect.CO_COROUTINE:
        runner.run(suspended(code, names))
    else:
        exec(code, names)


async def suspended(code: Any, names: dict[str, Any]) -> None:
    await eval(code, names)


def not_run() -> set[str]:
    return {line for line in LIST.read_text().splitlines() if line and not line.startswith("#")}


def failures(address: str, names: Iterable[str]) -> dict[str, str]:
    return {name: wrong for name in names if (wrong := run(name, address)) is not None}


def main() -> None:
    """Run all unlisted examples, or one in so many, against the server at an address; else write the list."""
    if len(sys.argv) > 1:
        # Output that an example's listeners print later, in threads of its client, is ignored.
        answer, sys.stdout = sys.stdout, io.StringIO()
        share = int(sys.argv[2])
        names = [name for name in examples() if name not in not_run()][::share]
        for name, wrong in failures(sys.argv[1], names).items():
            print(f"{name}\n{wrong}", file=answer)
        return
    from mangonel.server import start

    with start(replica_set=1) as deployment:
        found = failures(deployment.members[0].address, examples())
    for name, wrong in sorted(found.items()):
        print(f"{name}\n    {wrong.strip()}")
    head = "# Names whose examples do not run as they stand. This list may only get shorter.\n"
    LIST.write_text(head + "".join(f"{name}\n" for name in sorted(found)))
    print(f"{len(found)} of {len(examples())}")


if __name__ == "__main__":
    main()
