"""No response of the admin shows data that a user may not see, and no request changes data that a user may not change:
each route, for each model, with each kind of missing right.

The requests are made of `PAGES` and of the fields of the models, so a new route and a new field join by being defined.
Hidden data has marked texts, `unseen-…`, which no response may contain in any form.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Callable, Iterator
from html import unescape
from typing import Annotated, Any, ClassVar
from urllib.parse import unquote_plus

import pytest
from admin_visitor import Page, Visitor
from annotated_types import MaxLen

from mangonel._core import run_now
from mangonel.admin import Admin, Shown, _live
from mangonel.admin._allowed import listed_flow
from mangonel.admin._port import BLOCKING
from mangonel.admin._request import Request
from mangonel.admin._routes import PAGES, POSTED
from mangonel.odm import (
    Audited,
    Connection,
    Document,
    Embedded,
    Index,
    Indexed,
    Ref,
    Secret,
    SoftDelete,
    all_tenants,
    current_tenant,
    field,
    tenant,
)
from mangonel.websessions import WebSessions

httpx = pytest.importorskip("httpx")

# About a hundred requests each.
pytestmark = pytest.mark.enough(1)


class Pin(Embedded):
    __secret__: ClassVar[tuple[str, ...]] = ("code",)

    name: str = "p"
    code: str = "unseen-code"
    token: Secret | None = None


class Owner(Document):
    __collection__ = "rights_owners"

    name: str
    note: str = "unseen-note"


class Box(SoftDelete):
    __collection__ = "rights_boxes"
    __root__ = True
    __secret__: ClassVar[tuple[str, ...]] = ("key",)
    __indexes__: ClassVar[list[Index]] = [Index("note", "code", unique=True, sparse=True)]

    name: str
    note: Annotated[str, MaxLen(40)] = "unseen-note"
    code: str = ""
    key: str = "unseen-key"
    token: Secret | None = field(default_factory=lambda: Secret("unseen-token"))
    pin: Pin | None = None
    owner: Ref[Owner] | None = field(default=None, on_delete="deny")


class Chest(Box):
    __secret__: ClassVar[tuple[str, ...]] = ("code",)

    lock: str = "unseen-lock"


class Paper(Audited):
    __collection__ = "rights_papers"

    name: str
    note: str = "unseen-note"
    box: Ref[Box] | None = field(default=None, on_delete="cascade")


class Stamp(Document):
    __collection__ = "rights_stamps"
    __indexes__: ClassVar[list[Index]] = [Index("name", "note", kind="text")]

    name: str
    note: str = "unseen-note"
    paper: Ref[Paper] | None = field(default=None, on_delete="cascade")


class Leaf(Document):
    __collection__ = "rights_leaves"
    __tenant__ = "firm"

    firm: str = field(default_factory=current_tenant)
    name: str = ""
    code: Annotated[str, Indexed(unique=True)] = ""


MODELS = (Owner, Box, Chest, Paper, Stamp, Leaf)
SHOWN = (
    Shown(Owner, hidden=("note",)),
    Shown(Box, hidden=("note",), columns=("code", "owner", "deleted_at")),
    Shown(Chest, hidden=("lock",)),
    Shown(Paper, hidden=("note",)),
    Shown(Stamp, hidden=("note",)),
    Shown(Leaf),
)


def by_model(lacks: type[Document]) -> Callable[..., Any]:
    """No documents of a model may be listed."""
    return lambda user, action, model, document: not issubclass(model, lacks)


def by_filter(lacks: type[Document]) -> Callable[..., Any]:
    """Only some documents of a model may be listed."""

    def allowed(user: str, action: str, model: Any, document: Any) -> Any:
        if issubclass(model, lacks) and action == "list":
            return {"name": {"$not": {"$regex": "^unseen"}}}
        return True

    return allowed


def by_document(lacks: type[Document]) -> Callable[..., Any]:
    """Some documents of a model may not be viewed."""

    def allowed(user: str, action: str, model: Any, document: Any) -> Any:
        return not (isinstance(document, lacks) and document.name.startswith("unseen"))

    return allowed


class World:
    """Documents of each model, and a visitor of an admin."""

    def __init__(self, admin: Admin, visitor: Visitor, lacks: type[Document], way: Any) -> None:
        self.admin, self.visitor = admin, visitor
        self.unseen: list[Any] = []
        self.seen: list[Any] = []
        for model in MODELS if way is None else ():
            self.seen.append(self.made(model, "seen"))
        if way is not None:
            for model in MODELS:
                # A filter of `Box` hides chests too.
                is_hidden = issubclass(model, lacks)
                self.seen.append(self.made(model, "unseen" if way is by_model and is_hidden else "seen"))
                if is_hidden:
                    self.unseen.append(self.made(model, "unseen"))
        gone = self.made(Box, "unseen-deleted")
        gone.delete()
        with tenant("unseen-firm"):
            other = Leaf(name="unseen-leaf", code="unseen-leaf").save()
        self.unseen += [gone, other]

    def made(self, model: Any, name: str) -> Any:
        """Return a document that refers to a hidden one where it can."""
        values: dict[str, Any] = {"name": name}
        for target, key in ((Owner, "owner"), (Box, "box"), (Paper, "paper")):
            if key in model.__fields__:
                values[key] = next((one for one in self.unseen[::-1] if isinstance(one, target)), None)
        if issubclass(model, Box):
            count = len(self.seen) + len(self.unseen)
            values |= {"note": f"unseen-note-{count}", "pin": Pin(token=Secret("unseen-pin"))}
            values["code"] = "unseen-chest" if model is Chest else f"code-{count}"
        if issubclass(model, Leaf):
            values["code"] = name
        return model(**values).save()

    def everything(self) -> list[Any]:
        """Return the stored data that may not be changed."""
        with all_tenants():
            stored = [list(model.collection().find().sort("_id")) for model in MODELS]
        known = {one.id for one in self.unseen}
        return [row for rows in stored for row in rows if row["_id"] in known]


@pytest.fixture
def admin(db: Connection) -> Admin:
    made = Admin(
        *SHOWN,
        sessions=WebSessions("memory:"),
        login=lambda *asked: asked[0],
        allowed=lambda *asked: True,
        page_size=2,
    )
    for model in MODELS:
        model.sync_indexes()
    return made


@pytest.fixture
def visitor(admin: Admin) -> Iterator[Visitor]:
    with (
        tenant("mine"),
        httpx.Client(
            transport=httpx.WSGITransport(app=admin.wsgi()),
            base_url="https://admin.example",
            follow_redirects=True,
        ) as client,
    ):
        made = Visitor(client, "")
        made.log_in()
        yield made


# A document of each is deleted with another, is referred to, or is in the list of its base.
LACKS = [
    *((by_model, model) for model in (Owner, Chest, Paper)),
    *((by_filter, model) for model in (Owner, Box, Chest)),
    *((by_document, model) for model in (Box, Chest, Stamp)),
]


@pytest.fixture(
    params=[*LACKS, None],
    ids=lambda param: "all" if param is None else f"{param[0].__name__}-{param[1].__name__}",
)
def world(request: pytest.FixtureRequest, admin: Admin, visitor: Visitor) -> World:
    way, lacks = request.param or (None, Document)
    made = World(admin, visitor, lacks, way)
    if way is not None:
        admin.allowed = way(lacks)
    return made


def told(text: str, *echoed: str) -> str:
    """Return everything that a response reveals beyond the request's own content; tokens are decoded too."""
    text = re.sub(r'name="_csrf" value="[^"]*"', "", unquote_plus(unescape(text)))
    for word in echoed:
        text = text.replace(word, "")
    tokens = re.findall(r"(?:after|before)=([\w-]+)", text)
    return text + "".join(
        base64.urlsafe_b64decode(token + "=" * (-len(token) % 4)).decode("latin-1") for token in tokens
    )


def asked(world: World, name: str, shown: Any) -> Iterator[dict[str, str]]:
    """Yield the queries of a route: each document, each field as order and filter, each text as search."""
    for document in (*world.seen, *world.unseen):
        if issubclass(type(document), shown.model) or issubclass(shown.model, type(document)):
            yield {"id": str(document.id), "field": "note"}
    fields = {key for model in MODELS if issubclass(model, shown.model) for key in model.__fields__}
    if name in ("", "find"):
        yield {}
        yield from ({"q": word} for word in WORDS)
        yield from ({"sort": f"{sign}{key}"} for key in fields for sign in ("", "-"))
        yield from ({f"f.{key}": word} for key in fields for word in ("unseen-note", "unseen-code"))
    elif name not in ("document", "new", "delete", "history", "file", "live"):
        # A new route gets all of them.
        yield from ({"q": word, "sort": "note", "f.note": word} for word in WORDS)


WORDS = ("unseen-note", "unseen-code", "unseen-key", "unseen-lock", "unseen-chest", "unseen-token")
STREAMS = frozenset({"live"})


def test_no_answer_tells_what_may_not_be_seen(world: World) -> None:
    wrong: list[str] = []
    for shown in world.admin.shown:
        for name in PAGES.keys() - STREAMS:
            path = f"/{shown.title}/{name}".rstrip("/")
            for query in asked(world, name, shown):
                answer = world.visitor.client.get(path, params=query)
                assert answer.status_code in (200, 400, 403, 404), (path, query, answer.text)
                if "unseen" in (said := told(answer.text, *query.values())):
                    at = said.index("unseen")
                    wrong.append(f"{path} {query}: {said[max(0, at - 80) : at + 40]!r}")
    assert not wrong, "\n".join(wrong[:20])


def test_a_search_for_what_may_not_be_seen_finds_as_much_as_one_for_nothing(world: World) -> None:
    for shown in world.admin.shown:
        for name in ("", "find"):
            path = f"/{shown.title}/{name}".rstrip("/")
            for word in WORDS:
                nothing = "".join(reversed(word)) + "zz"
                found = [
                    told(world.visitor.client.get(path, params={"q": each}).text, each)
                    for each in (word, nothing)
                ]
                assert found[0] == found[1], (path, word)


def test_no_order_depends_on_what_may_not_be_seen(world: World) -> None:
    for shown in world.admin.shown:
        usual = world.visitor.client.get(f"/{shown.title}")
        for key in (
            "note",
            "key",
            "token",
            "lock",
            "pin.code",
            *(("code",) if shown.model in (Box, Chest) else ()),
        ):
            for sign in ("", "-"):
                page = world.visitor.client.get(f"/{shown.title}", params={"sort": sign + key})
                assert Page(page.text).text == Page(usual.text).text, (shown.title, key)


def test_a_stream_tells_no_change_of_what_may_not_be_seen(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_live, "WAIT_MS", 100)
    session: Any = type("Session", (), {"user": "eve"})()
    for shown in world.admin.shown:
        request = Request("GET", "", f"/{shown.title}/live", {}, session, lambda name: None)
        listed = run_now(listed_flow(world.admin, BLOCKING, request, shown))
        if listed is False:
            continue
        live = _live.Live(world.admin, request, shown)
        run_now(live.part_flow(BLOCKING))
        with all_tenants():
            for document in (*world.seen, *world.unseen):
                if isinstance(document, shown.model):
                    type(document).unscoped({"_id": document.id}).update({"$set": {"extra": 1}})
        said = b""
        while b"data: " in (part := run_now(live.part_flow(BLOCKING))):
            said += part
        run_now(live.close_flow(BLOCKING))
        told_ids = re.findall(rb'"id": "(\w+)"', said)
        assert not {str(document.id).encode() for document in world.unseen}.intersection(told_ids)
        assert b"unseen" not in said, said


def test_no_form_changes_what_may_not_be_changed(world: World) -> None:
    before = world.everything()
    token = world.visitor.get("/Leaf/new").form["_csrf"]
    for shown in world.admin.shown:
        for name in POSTED:
            for document in world.unseen:
                form = {"_csrf": token, "name": "changed", "_was.name": "x"}
                answer = world.visitor.client.post(
                    f"/{shown.title}/{name}", params={"id": str(document.id)}, data=form
                )
                assert answer.status_code in (200, 303, 403, 404, 422), answer.text
                assert world.everything() == before, (shown.title, name)
