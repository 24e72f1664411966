"""No command of an encrypted model's collection holds a plain value, however it names the field: the value is
encrypted, or the command is refused before it is sent, and the error quotes nothing of it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mangonel import bson
from mangonel.bson import Binary
from mangonel.odm import Document, Embedded, Encrypted, UnsupportedOption, field
from mangonel.odm.encryption.encrypting_port import tree_of_collection
from mangonel.odm.errors import ValidationError
from odm.analysed import look

SECRET = "SECRETVALUE"
NAME = "analysed_people"
EQUAL = Encrypted("deterministic", key="people")


class Phone(Embedded):
    kind: str
    number: Annotated[str, EQUAL]


class Code(Embedded):
    code: Annotated[str, Encrypted("indexed", key="people")]


class Branch(Embedded):
    kind: str
    # Declared before the fields that it contains: the model is not complete here.
    next: Branch | str | None = None
    number: Annotated[str, EQUAL]


class Shape(Embedded):
    __root__ = True
    __tag__ = "form"


class Round(Shape):
    size: Phone | None = None


class Square(Shape):
    size: int = 0


class Desk(Embedded):
    place: str


class Locked(Desk):
    code: Annotated[str, EQUAL]


class Analysed(Document):
    __collection__ = NAME
    name: str
    ssn: Annotated[str, EQUAL]
    pay: Annotated[str, Encrypted(key="people")]
    codes: list[Annotated[str, EQUAL]] = field(default_factory=list)
    phones: list[Phone] = field(default_factory=list)
    home: Phone | None = None
    marks: dict[str, Annotated[str, EQUAL]] = field(default_factory=dict)
    either: list[Annotated[str, EQUAL]] | dict[str, Annotated[str, EQUAL]] = field(default_factory=list)
    token: Annotated[str, Encrypted("indexed", key="people")] = ""
    inner: Code | None = None
    note: Annotated[str, Encrypted("unindexed", key="people")] = ""
    branch: Branch | None = None
    word: Phone | str = ""
    deep: list[list[Annotated[str, EQUAL]]] = field(default_factory=list)
    shape: Shape | None = None
    desk: Desk | None = None
    desks: dict[str, Desk] = field(default_factory=dict)


def sent(command: dict[str, Any]) -> bytes:
    """Return the bytes of a command as sent, with each encrypted value emptied."""
    return look(Analysed, command)[0]


def find(condition: Any, **more: Any) -> dict[str, Any]:
    return {"find": NAME, "filter": condition, **more}


def aggregate(*stages: Any) -> dict[str, Any]:
    return {"aggregate": NAME, "pipeline": list(stages), "cursor": {}}


def update(change: Any, condition: Any = None, **more: Any) -> dict[str, Any]:
    return {"update": NAME, "updates": [{"q": condition or {}, "u": change, **more}]}


def insert(**values: Any) -> dict[str, Any]:
    return {"insert": NAME, "documents": [values]}


def match(**condition: Any) -> dict[str, Any]:
    return {"$match": condition}


def after(stage: Any, path: str) -> dict[str, Any]:
    """Return a pipeline that reads the secret from where a stage has put it."""
    return aggregate(stage, match(**{path: SECRET}))


def changed(path: str) -> list[Any]:
    return [{"$changeStream": {}}, match(**{path: SECRET})]


GET = {"$eq": [{"$getField": "ssn"}, SECRET]}
ENCRYPTED = {
    "a map's value": find({"marks.latin": SECRET}),
    "a map's value beside a list": find({"either.latin": SECRET}),
    "an element beside a map": find({"either.0": SECRET}),
    "a whole map beside a list": insert(either={"latin": SECRET}),
    "a whole list beside a map": insert(either=[SECRET]),
    "an alternative that contains itself": insert(branch={"next": {"next": {"number": SECRET}}}),
    "a path in an alternative that contains itself": find({"branch.next.next.number": SECRET}),
    "an alternative to a text": insert(word={"kind": "a", "number": SECRET}),
    "a field of a relative": insert(shape={"form": "a", "size": {"number": SECRET}}),
    "an embedded document": find({"home": {"kind": "a", "number": SECRET}}),
    "embedded documents": find({"home": {"$in": [{"kind": "a", "number": SECRET}]}}),
    "a position": find({"phones.0.number": SECRET}),
    "elements by $elemMatch": find({"codes": {"$elemMatch": {"$eq": SECRET}}}),
    "elements by $elemMatch and $or": find({"phones": {"$elemMatch": {"$or": [{"number": SECRET}]}}}),
    "elements by $all": find({"codes": {"$all": [{"$elemMatch": {"$in": [SECRET]}}]}}),
    "a projected element": find({}, projection={"codes": {"$elemMatch": {"$eq": SECRET}}}),
    "a projected element of some": find({}, projection={"codes": {"$elemMatch": {"$in": [SECRET]}}}),
    "a projected document": find({}, projection={"phones": {"$elemMatch": {"number": SECRET}}}),
    "an indexed value": find({"token": SECRET}),
    "bytes that say they are encrypted": insert(ssn=Binary(SECRET.encode(), 6)),
    "a request to encrypt": insert(ssn=Binary(b"\x00" + SECRET.encode() * 3, 6)),
    "positions and filters of arrays": update(
        {"$set": {"phones.$[p].number": SECRET, "codes.$[c]": SECRET}},
        arrayFilters=[{"p.number": SECRET}, {"$or": [{"c": {"$in": [SECRET]}}]}],
    ),
    "a filter of an array for its neighbour": update(
        {"$set": {"phones.$[p].kind": "x"}}, arrayFilters=[{"p.number": SECRET}]
    ),
    "what is pulled": update({"$pull": {"codes": {"$in": [SECRET]}, "phones": {"number": SECRET}}}),
    "what is pushed": update({"$push": {"codes": {"$each": [SECRET]}, "phones": {"number": SECRET}}}),
    "what an upsert adds": update({"$setOnInsert": {"ssn": SECRET}}, {"name": "a"}, upsert=True),
    "a lookup with its database": aggregate(
        {"$lookup": {"from": {"db": "d", "coll": NAME}, "as": "x", "pipeline": [match(ssn=SECRET)]}}
    ),
    "documents of a union": aggregate({"$unionWith": {"coll": NAME, "pipeline": [match(ssn=SECRET)]}}),
    "a facet": aggregate({"$facet": {"a": [match(ssn=SECRET)]}}),
    "a moved document": after({"$project": {"a": "$home"}}, "a.number"),
    "a new root": after({"$replaceRoot": {"newRoot": "$home"}}, "number"),
    "a group's key": after({"$group": {"_id": {"a": "$ssn"}}}, "_id.a"),
    "a group's documents": after({"$group": {"_id": "$name", "r": {"$push": "$$ROOT"}}}, "r.ssn"),
    "a changed document": aggregate(*changed("fullDocument.ssn")),
    "a key of a shard": aggregate(*changed("documentKey.ssn")),
    "a change in the database": {"aggregate": 1, "pipeline": changed("fullDocument.ssn"), "cursor": {}},
    "a view": {"create": "v", "viewOn": NAME, "pipeline": [match(ssn=SECRET)]},
    "a view's change": {"collMod": "v", "viewOn": NAME, "pipeline": [match(ssn=SECRET)]},
    "a rule": {"create": NAME, "validator": {"$jsonSchema": {"required": ["ssn"]}, "ssn": SECRET}},
    "a rule's change": {"collMod": NAME, "validator": {"ssn": SECRET}},
    "a partial index": {
        "createIndexes": NAME,
        "indexes": [{"key": {"name": 1}, "name": "x", "partialFilterExpression": {"ssn": SECRET}}],
    },
    "an explained update": {"explain": update({"$set": {"ssn": SECRET}}, {"ssn": SECRET})},
    "a projection of a modification": {
        "findAndModify": NAME,
        "query": {"ssn": SECRET},
        "fields": {"codes": {"$elemMatch": {"$eq": SECRET}}},
        "update": {"$set": {"ssn": SECRET}},
    },
}
REFUSED = {
    "min": find({}, min={"ssn": SECRET}),
    "max": find({}, max={"phones.number": SECRET}),
    "$eq": find({"$eq": SECRET}),
    "$eq in a list": find({"codes": {"$elemMatch": {"$or": [{"$eq": SECRET}]}}}),
    "== with a whole document": find({"inner": {"code": SECRET}}),
    "$in with a whole document": find({"inner": {"$in": [{"code": SECRET}]}}),
    "$jsonSchema with patternProperties": find(
        {"$jsonSchema": {"patternProperties": {"^s": {"enum": [SECRET]}}}}
    ),
    "$jsonSchema with additionalProperties": find(
        {"$jsonSchema": {"additionalProperties": {"enum": [SECRET]}}}
    ),
    "$jsonSchema with enum": find({"$jsonSchema": {"enum": [{"ssn": SECRET}]}}),
    "$jsonSchema": find({"$jsonSchema": {"anyOf": [{"properties": {"ssn": {"enum": [SECRET]}}}]}}),
    "$expr": find({"$expr": {"$eq": ["$ssn", "$$x"]}}, let={"x": SECRET}),
    "$expr by name": find({"$expr": GET}),
    "$getField with a computed name": find({"$expr": {"$eq": [{"$getField": {"$literal": "ssn"}}, SECRET]}}),
    "$getField with a computed name of parts": find(
        {"$expr": {"$eq": [{"$getField": {"$concat": ["s", "sn"]}}, SECRET]}}
    ),
    "$getField with a computed name in $set": update(
        [{"$set": {"name": {"$eq": [{"$getField": {"field": {"$literal": "ssn"}}}, SECRET]}}}]
    ),
    "$project of a part": aggregate({"$project": {"a": {"b": {"$eq": ["$ssn", SECRET]}}}}),
    "$project of a part of a document": after({"$project": {"a": {"b": "$ssn"}}}, "a.b"),
    "$set in a pipeline": update([{"$set": {"home.number": SECRET}}]),
    "a name with dots": insert(**{"home.number": SECRET}),
    "a name with dots in its place": update({"name": "a", "home.number": SECRET}),
    "$gt behind a stage": aggregate({"$limit": 1, "$match": {"ssn": {"$gt": SECRET}}}),
    "$set in whenMatched": aggregate({"$merge": {"into": NAME, "whenMatched": [{"$set": {"ssn": SECRET}}]}}),
    "$merge": aggregate({"$addFields": {"ssn": SECRET}}, {"$merge": {"into": {"db": "d", "coll": NAME}}}),
    "$merge of another": {
        "aggregate": "other",
        "pipeline": [{"$addFields": {"ssn": SECRET}}, {"$merge": NAME}],
        "cursor": {},
    },
    "$merge of documents": {
        "aggregate": 1,
        "pipeline": [{"$documents": [{"ssn": SECRET}]}, {"$merge": NAME}],
        "cursor": {},
    },
    "$out": aggregate({"$project": {"ssn": {"$literal": SECRET}}}, {"$out": NAME}),
    "an array filter": update({"$set": {"name": "x"}}, arrayFilters=[{"p.number": SECRET}]),
    "an array filter of a replacement": update({"name": "x"}, arrayFilters=[{"p.number": SECRET}]),
    "one command for two updates": {
        "update": NAME,
        "updates": [{"q": {"name": name}, "u": {"$set": {"name": "x"}}} for name in ("a", SECRET)],
    },
    "one command for all that match": update({"$set": {"ssn": SECRET}}, multi=True),
    "findAndModify with new": {
        "findAndModify": NAME,
        "query": {"ssn": SECRET},
        "update": {"$set": {"name": "x"}},
        "new": True,
    },
    "bulkWrite": {"bulkWrite": 1, "ops": [{"insert": 0, "document": {"ssn": SECRET}}], "nsInfo": []},
    "applyOps": {"applyOps": [{"op": "i", "ns": f"d.{NAME}", "o": {"ssn": SECRET}}]},
    "setQuerySettings": {"setQuerySettings": {"find": NAME, "filter": {"ssn": SECRET}}, "settings": {}},
    "find": {"find": Binary(bytes(16), 4), "filter": {"ssn": SECRET}},
    "mapReduce": {"mapReduce": NAME, "query": {"ssn": SECRET}},
    "upsert": update({"$set": {"name": "x"}}, {"token": SECRET}, upsert=True),
    "==": find({"note": SECRET}),
    "== of a random value": find({"pay": SECRET}),
}


@pytest.mark.parametrize("what", ENCRYPTED)
def test_a_value_is_encrypted_however_its_field_is_named(what: str) -> None:
    assert SECRET.encode() in bson.encode(ENCRYPTED[what])
    assert SECRET.encode() not in sent(ENCRYPTED[what])


@pytest.mark.parametrize("what", REFUSED)
def test_what_cannot_be_encrypted_is_refused_and_not_quoted(what: str) -> None:
    with pytest.raises(UnsupportedOption) as caught:
        sent(REFUSED[what])
    # The first word of a case's name, without its article.
    assert what.removeprefix("a ").removeprefix("an ").split(" ")[0] in str(caught.value)
    assert "Analysed" in str(caught.value)
    assert SECRET not in str(caught.value)


MISPLACED = {
    "a text in place of a document": {"home": SECRET},
    "a number in place of a document": {"home": 457555462},
    "a list of texts in place of a document": {"home": ["a", SECRET]},
    "a text in place of a list of documents": {"phones": SECRET},
    "texts in place of documents": {"phones": [{"kind": "a"}, SECRET]},
    "lists of texts in place of documents": {"phones": [[SECRET]]},
    "a text in place of a map": {"marks": SECRET},
    "a document in place of a list": {"codes": {"a": SECRET}},
    "a document in place of lists": {"deep": [{"a": SECRET}]},
    "a document for a list of lists": {"deep": {"a": {"b": SECRET}}},
}
WRITES: dict[str, Callable[[dict[str, Any]], dict[str, Any]]] = {
    "insert": lambda values: insert(**values),
    "$set": lambda values: update({"$set": values}),
    "$setOnInsert": lambda values: update({"$setOnInsert": values}, upsert=True),
    "replacement": lambda values: update(values),
    "findAndModify": lambda values: {"findAndModify": NAME, "query": {}, "update": {"$set": values}},
    "$push": lambda values: update({"$push": values}),
    "$addToSet": lambda values: update({"$addToSet": values}),
    "==": lambda values: find(values),
    "$in": lambda values: find({name: {"$in": [value]} for name, value in values.items()}),
    "$match": lambda values: aggregate(match(**values)),
}


def refused_or_sent(command: dict[str, Any]) -> tuple[str, bytes]:
    """Return the error's text and the sent bytes; one of them is empty."""
    try:
        return "", sent(command)
    except (UnsupportedOption, ValidationError) as error:
        return str(error), b""


@pytest.mark.parametrize("how", WRITES)
@pytest.mark.parametrize("what", MISPLACED)
def test_what_is_misplaced_is_not_sent_as_it_is(what: str, how: str) -> None:
    said, made = refused_or_sent(WRITES[how](MISPLACED[what]))
    assert SECRET not in said
    assert SECRET.encode() not in made
    # A value that is searched for in a list, or added to it, may be one of its elements.
    assert said or how in ("$push", "$addToSet", "==", "$in", "$match")


def test_a_misplaced_value_is_refused_with_its_place() -> None:
    with pytest.raises(ValidationError, match=r"expected a document at \$\.home of Analysed, whose number"):
        sent(insert(home=SECRET))
    with pytest.raises(ValidationError, match=r"expected a list at \$\.codes of Analysed"):
        sent(insert(codes={"a": SECRET}))
    with pytest.raises(UnsupportedOption, match=r"== with something else than a document"):
        sent(find({"home": SECRET}))


KEYS = ("kind", "number", "next", "code", "0", "other")
TOPS = ("home", "phones", "codes", "marks", "either", "branch", "deep", "inner", "ssn", "pay")


def misplaced(value: Any, top: str, name: str = "", is_open: bool = False) -> Any:
    """Return a value with the secret in place of each text, except those that the model stores in the clear."""
    if isinstance(value, dict):
        known = {"branch": ("number", "next", "0"), "inner": ("code", "0")}.get(top, ("number", "0"))
        return {
            # What stands at a position is what may stand there without one.
            key: misplaced(
                inner,
                top,
                name if (name, key) == ("next", "0") else key,
                is_open or (key not in known and top not in ("marks", "either")),
            )
            for key, inner in value.items()
        }
    if isinstance(value, list):
        return [misplaced(inner, top, name, is_open) for inner in value]
    return value if is_open or name == "next" else SECRET


@given(
    st.sampled_from(TOPS),
    st.recursive(
        st.just("open"),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(KEYS), inner, max_size=3),
        max_leaves=8,
    ),
    st.sampled_from(sorted(WRITES)),
)
def test_no_form_of_a_value_gets_through(top: str, value: Any, how: str) -> None:
    said, made = refused_or_sent(WRITES[how]({top: misplaced(value, top)}))
    assert SECRET not in said
    assert SECRET.encode() not in made


def test_another_alternative_may_be_in_the_clear() -> None:
    for command in (insert(word="open"), insert(branch={"next": "open"}), insert(shape={"size": 5})):
        assert sent(command) == bson.encode(command)


def test_what_a_subclass_adds_to_an_embedded_document_is_encrypted() -> None:
    locked = Locked(place="a", code=SECRET)
    for place, path in (({"desk": locked}, "desk"), ({"desks": {"x": locked}}, "desks")):
        document = Analysed(name="a", ssn="", pay="", **place)
        assert SECRET.encode() in document.to_bson().raw
        values = bson.decode(document.to_bson().raw)
        made = sent(insert(**{path: values[path]}))
        assert SECRET.encode() not in made


def test_models_that_contain_themselves_are_taken_together() -> None:
    class First(Embedded):
        first: First | None = None
        one: Annotated[str, EQUAL]

    class Second(Embedded):
        first: Second | None = None
        two: Annotated[str, EQUAL]

    class Either(Document):
        __collection__ = "analysed_eithers"
        values: list[First] | dict[str, Second] = field(default_factory=list)

    tree = tree_of_collection("analysed_eithers", Either)
    assert tree is not None
    assert [path for path, _ in tree.rules()] == ["values.[].one", "values.*.two"]
    one, two = tree.fields["values"].each, tree.fields["values"].values
    assert one is not None
    assert two is not None
    assert one.merge(two, "here")
    assert not one.merge(two, "here")
    assert sorted(one.fields) == ["first", "one", "two"]


def test_lists_within_lists_of_encrypted_values_are_refused() -> None:
    with pytest.raises(ValidationError, match=r"got one at \$\.codes") as caught:
        sent(insert(codes=[[SECRET]]))
    assert SECRET not in str(caught.value)


def test_what_holds_no_encrypted_field_is_sent_as_it_is() -> None:
    for command in (
        {"ping": 1},
        {"aggregate": 1, "pipeline": [{"$currentOp": {}}], "cursor": {}},
        {"create": NAME, "validator": {"$jsonSchema": {"properties": {"ssn": {"bsonType": "binData"}}}}},
        aggregate(match(name="a"), {"$merge": {"into": NAME, "on": "_id"}}),
        aggregate({"$project": {"ssn": 1}}, {"$out": "elsewhere"}),
        find({"$jsonSchema": {"required": ["ssn"], "properties": {"name": {"enum": ["a"]}}}}),
        update({"$set": {"scores.$[s]": 1}}, arrayFilters=[{"s": {"$gt": 5}}]),
        find({"$expr": {"$eq": [{"$getField": {"$literal": "na$me"}}, "a"]}}),
        find({"$comment": "x", "name": "a"}),
    ):
        assert sent(command) == bson.encode(command)
