"""pydantic and FastAPI return included documents, and their schemas describe them."""

from __future__ import annotations

from typing import Any

import pytest

from mangonel.odm import Connection, Document, Embedded, Many, Ref, Refs, many

fastapi = pytest.importorskip("fastapi")
pydantic = pytest.importorskip("pydantic")
testclient = pytest.importorskip("fastapi.testclient")


class Studio(Document):
    __collection__ = "resp_studios"
    name: str
    films: Many[Film] = many(by="studio", order="title")


class Film(Document):
    __collection__ = "resp_films"
    title: str
    studio: Ref[Studio]
    shown_in: Refs[Studio]


@pytest.fixture
def client(db: Connection, face: Any) -> Any:
    """A client of an application that answers with documents."""
    if face.is_async:
        pytest.skip("the application has routes of both faces")
    studios = [Studio(name="a").save(), Studio(name="b").save()]
    for title in ("x", "y"):
        Film(title=title, studio=studios[0], shown_in=studios).save()
    app = fastapi.FastAPI()

    def films() -> Any:
        return Film.find().sort("title").include(Film.studio, Film.shown_in).all()

    def plain() -> Any:
        return Film.find().sort("title").all()

    def studio() -> Any:
        return Studio.find().sort("name").include(Studio.films).first()

    for route, kind in ((films, list[Film]), (plain, list[Film]), (studio, Studio)):
        app.get(f"/{route.__name__}", response_model=kind)(route)
    return testclient.TestClient(app)


def test_a_response_has_the_included_documents(client: Any) -> None:
    films = client.get("/films").json()
    assert [film["studio"]["name"] for film in films] == ["a", "a"]
    assert [[studio["name"] for studio in film["shown_in"]] for film in films] == [["a", "b"]] * 2
    assert [film["studio"] for film in client.get("/plain").json()] == [films[0]["studio"]["id"]] * 2
    studio = client.get("/studio").json()
    assert [(film["title"], film["studio"]) for film in studio["films"]] == [
        ("x", studio["id"]),
        ("y", studio["id"]),
    ]


def test_the_schema_of_a_response_allows_both(client: Any) -> None:
    schemas = client.get("/openapi.json").json()["components"]["schemas"]
    film = next(schema for name, schema in schemas.items() if name.startswith("Film"))
    kinds = [part["type"] for part in film["properties"]["studio"]["anyOf"]]
    assert kinds == ["string", "object"]
    assert film["properties"]["shown_in"]["anyOf"][1]["items"]["title"] == "Studio"
    studio = next(schema for name, schema in schemas.items() if name.startswith("Studio"))
    assert studio["properties"]["films"]["items"]["title"] == "Film"
    assert "films" not in studio["required"]


def test_a_request_takes_ids_alone(client: Any) -> None:
    import pydantic

    schema = pydantic.TypeAdapter(Film).json_schema(mode="validation")
    assert "anyOf" not in schema["properties"]["studio"]


class Frame(Embedded):
    __computed__ = ("size",)
    width: int

    @property
    def size(self) -> str:
        return f"{self.width} px"


class Painter(Document):
    __computed__ = ("label",)
    name: str

    @property
    def label(self) -> str:
        return f"<{self.name}>"


class Painting(Document):
    painter: Ref[Painter]
    frames: list[Frame]


def test_what_is_inside_a_response_has_its_computed_values_too(db: Connection, face: Any) -> None:
    painter = Painter(name="Ada")
    face.save(painter)
    face.save(Painting(painter=painter, frames=[Frame(width=3)]))
    painting = face.call(Painting.find().include(Painting.painter), "one")
    shown = pydantic.TypeAdapter(Painting).dump_python(painting, mode="json")
    assert (shown["painter"]["label"], shown["frames"]) == ("<Ada>", [{"width": 3, "size": "3 px"}])
    assert painting.to_dict()["frames"] == [{"width": 3}]
