"""Wherever a field may hold an embedded document, its hooks run, its secrets are kept and its indexes are declared."""

from typing import Annotated, Any, Literal

import pytest

from mangonel.odm import (
    Connection,
    Document,
    Embedded,
    Indexed,
    Ref,
    Secret,
    Sequence,
    Timestamps,
    UnsupportedOption,
    Version,
    before,
    field,
)

HEARD: list[int] = []


class Card(Embedded):
    kind: Literal["card"] = "card"
    number: int = 0
    pin: Secret = Secret("1234")

    @before("save")
    def hear(self) -> None:
        HEARD.append(self.number)


class Cash(Embedded):
    kind: Literal["cash"] = "cash"


class Wallet(Embedded):
    card: Card | None = None


class Means(Embedded):
    __root__ = True


class Gift(Means):
    number: int = 0
    pin: Secret = Secret("1234")

    @before("save")
    def hear(self) -> None:
        HEARD.append(self.number)


# Places for an embedded document: the field's type, and a value that holds the documents 1 and 2.
PLACES: dict[str, tuple[Any, Any]] = {
    "list": (list[Card], lambda one, two: [one, two]),
    "list of lists": (list[list[Card]], lambda one, two: [[one], [two]]),
    "map": (dict[str, Card], lambda one, two: {"a": one, "b": two}),
    "map of lists": (dict[str, list[Card]], lambda one, two: {"a": [one, two]}),
    "tuple": (tuple[Card, Card], lambda one, two: (one, two)),
    "first alternative": (list[Card | Cash], lambda one, two: [one, Cash(), two]),
    "second alternative": (list[Cash | Card], lambda one, two: [one, Cash(), two]),
    "another embedded document": (list[Wallet], lambda one, two: [Wallet(card=one), Wallet(card=two)]),
    "a place for its base": (list[Means], lambda one, two: [Gift(number=1), Gift(number=2)]),
}


def model_of(place: Any) -> Any:
    class Holder(Document):
        __collection__ = "holders"
        held: place

    return Holder


@pytest.mark.parametrize("place", PLACES)
def test_hooks_of_an_embedded_document_run_wherever_it_stands(db: Connection, face: Any, place: str) -> None:
    annotation, value = PLACES[place]
    document = model_of(annotation)(held=value(Card(number=1), Card(number=2)))
    HEARD.clear()
    face.save(document)
    assert HEARD == [1, 2]


@pytest.mark.parametrize("place", [*PLACES, "itself"])
def test_json_of_a_query_shows_no_secret_wherever_it_stands(db: Connection, face: Any, place: str) -> None:
    annotation = PLACES[place][0] if place in PLACES else list[Secret]
    with pytest.raises(UnsupportedOption, match="it would be shown"):
        face.call(model_of(annotation).find(), "json")


def test_hooks_of_a_class_that_is_defined_after_the_first_save_run(db: Connection, face: Any) -> None:
    model = model_of(list[Means])
    face.save(model(held=[]))
    heard: list[str] = []

    class Voucher(Means):
        @before("save")
        def hear(self) -> None:
            heard.append("voucher")

    face.save(model(held=[Voucher()]))
    assert heard == ["voucher"]


class Name(Timestamps):
    text: str


@pytest.mark.parametrize(
    ("name", "annotation", "options"),
    [
        ("on_delete", Ref[Name], {"on_delete": "deny"}),
        ("touch", Ref[Name], {"touch": True}),
        ("Sequence", Annotated[int | None, Sequence()], {}),
        ("Version", Annotated[int, Version], {}),
    ],
)
def test_what_only_documents_fields_can_have_is_refused_inside(
    name: str, annotation: Any, options: dict[str, Any]
) -> None:
    class Part(Embedded):
        inner: annotation = field(default=None, **options)

    with pytest.raises(TypeError, match=f"cannot have {name} at Part.inner: Part is embedded"):
        Part()


def test_indexes_of_every_alternative_are_declared(db: Connection, face: Any) -> None:
    class Left(Embedded):
        kind: Literal["left"] = "left"
        a: Annotated[int, Indexed()] = 0

    class Right(Embedded):
        kind: Literal["right"] = "right"
        b: Annotated[int, Indexed()] = 0

    model = model_of(list[Left | Right])
    face.call(model, "sync_indexes")
    assert {"held.a_1", "held.b_1"} <= set(db.database().holders.index_information())
