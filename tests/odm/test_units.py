"""A unit stores documents of several models all together or not at all, each after the documents that it refers to."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mangonel.bson import ObjectId
from mangonel.errors import BulkWriteError, DuplicateKeyError, OperationFailure
from mangonel.odm import (
    AnyRef,
    BelongsTo,
    Connection,
    DeleteDenied,
    Document,
    Embedded,
    Indexed,
    OdmError,
    Ref,
    Refs,
    StaleDocument,
    Version,
    before,
    count_commands,
    field,
    inc,
)
from mangonel.odm.store.unit import _groups
from odm.conftest import Face


class Company(Document):
    name: Annotated[str, Indexed(unique=True)]


class Person(Document):
    company: Ref[Company] = field(on_delete="deny")
    name: str
    rev: Annotated[int, Version] = 0


class Letter(Document):
    sender: BelongsTo[Person]
    readers: Refs[Person]
    answers: list[Ref[Letter]] = field(default_factory=list)


class Node(Document):
    number: int
    to: list[Ref[Node]] = field(default_factory=list)
    by_name: dict[str, Ref[Node]] = field(default_factory=dict)


async def _with_unit(db: Connection, face: Face, act: Any) -> None:
    if face.is_async:
        async with db.unit() as unit:
            act(unit)
    else:
        with db.unit() as unit:
            act(unit)


def in_unit(db: Connection, face: Face, act: Any) -> None:
    """Run a function of a unit inside its block."""
    if face.is_async:
        face.wait(_with_unit(db, face, act))
        return
    with db.unit() as unit:
        act(unit)


def test_documents_are_sent_in_few_commands_each_after_its_references(db: Connection, face: Face) -> None:
    company = Company(name="Tea")
    people = [Person(company=company, name=name) for name in "abc"]
    letter = Letter(sender=people[0], readers=people[1:])
    with count_commands(db) as commands:
        in_unit(db, face, lambda unit: unit.save(letter, *people, company))
    names = [name for name, *_ in commands.sent]
    # The reference to the company denies its deletion, so the transaction locks and checks the company.
    assert names == ["insert", "insert", "update", "find", "insert", "commitTransaction"]
    assert [
        one.count_documents({}) for one in (Company.collection(), Person.collection(), Letter.collection())
    ] == [
        1,
        3,
        1,
    ]
    assert not any(one.is_new or one.is_changed for one in (letter, *people, company))


def test_a_failure_stores_nothing_and_puts_every_document_back(db: Connection, face: Face) -> None:
    Company.sync_indexes()
    taken = Company(name="Tea").save()
    person = Person(company=taken, name="a").save()
    person.name = "b"
    fresh, double = Person(company=taken, name="c"), Company(name="Tea")
    fresh_company = Company(name="Coffee")
    with pytest.raises((BulkWriteError, DuplicateKeyError)):
        in_unit(db, face, lambda unit: unit.save(person, fresh, fresh_company, double))
    assert (Company.find().count(), Person.find().count()) == (1, 1)
    assert fresh.is_new
    assert fresh_company.is_new
    assert double.is_new
    assert person.changes() == {"name": ("a", "b")}
    assert person.rev == 0
    double.name = "Milk"
    in_unit(db, face, lambda unit: unit.save(person, fresh, fresh_company, double))
    assert (Company.find().count(), Person.find().count(), person.rev) == (3, 2, 1)


def test_a_stale_document_fails_the_whole_unit(db: Connection, face: Face) -> None:
    company = Company(name="Tea").save()
    person, other = Person(company=company, name="a").save(), Person(company=company, name="b").save()
    Person.find(Person.id == person.id).update(inc(Person.rev, 5))
    person.name = other.name = "c"
    with pytest.raises(StaleDocument):
        in_unit(db, face, lambda unit: unit.save(other, person))
    assert Person.find(Person.name == "c").count() == 0
    assert other.changes() == {"name": ("b", "c")}
    assert person.changes() == {"name": ("a", "c")}


def test_what_the_block_does_itself_is_part_of_the_unit(db: Connection, face: Face) -> None:
    company = Company(name="Tea")

    def fail(unit: Any) -> None:
        unit.save(company)
        company.name = "Coffee"
        raise LookupError

    with pytest.raises(LookupError):
        in_unit(db, face, fail)
    assert (company.name, company.is_new, Company.find().count()) == (
        "Tea",
        True,
        0,
    )


def test_deletions_come_last_and_referrers_go_first(db: Connection, face: Face) -> None:
    company = Company(name="Tea").save()
    person = Person(company=company, name="a").save()
    with pytest.raises(DeleteDenied):
        in_unit(db, face, lambda unit: unit.delete(company))
    assert not company.is_deleted
    assert Company.find().count() == 1
    new = Company(name="Coffee")

    def act(unit: Any) -> None:
        unit.delete(company, person)
        unit.save(new)

    in_unit(db, face, act)
    assert [one.name for one in Company.find()] == ["Coffee"]
    assert person.is_deleted
    assert company.is_deleted


def test_a_unit_inside_a_transaction_joins_it(db: Connection) -> None:
    company = Company(name="Tea")

    def fail() -> None:
        with db.transaction():
            with db.unit() as unit:
                unit.save(company)
            assert Company.find().count() == 1
            raise LookupError

    with pytest.raises(LookupError):
        fail()
    assert company.is_new
    assert Company.find().count() == 0


def test_wrong_uses_are_refused(db: Connection, server: Any) -> None:
    company = Company(name="Tea")
    with pytest.raises(OdmError, match="inside its block"):
        db.unit().save(company)
    with db.unit() as unit:
        with pytest.raises(TypeError, match="expected documents"):
            unit.save(Company)
        unit.save(company)
        with pytest.raises(OdmError, match="save and delete the same"):
            unit.delete(company)
    with pytest.raises(OdmError, match="inside its block"):
        unit.save(company)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9), st.booleans()), max_size=25),
    st.permutations(range(10)),
)
def test_every_reference_leads_to_an_earlier_group_unless_it_is_in_a_circle(
    db: Connection, edges: Any, order: Any
) -> None:
    nodes = [Node(number=number) for number in range(10)]
    leads: dict[int, set[int]] = {number: set() for number in range(10)}
    for start, end, is_map in edges:
        leads[start].add(end)
        if is_map:
            nodes[start].by_name[str(end)] = nodes[end]  # type: ignore[assignment]
        else:
            nodes[start].to.append(nodes[end])  # type: ignore[arg-type]
    groups = _groups([nodes[number] for number in order])
    assert sorted(node.number for group in groups for node in group) == list(range(10))
    place = {node.number: number for number, group in enumerate(groups) for node in group}
    reach = {number: _reached(number, leads) for number in range(10)}
    for start in leads:
        for end in leads[start]:
            if start not in reach[end]:
                assert place[end] < place[start]


def _reached(start: int, leads: dict[int, set[int]]) -> set[int]:
    found, queue = set(), [start]
    for current in queue:
        queue += [end for end in leads[current] if end not in found]
        found |= leads[current]
    return found


@pytest.fixture
def refuse(db: Connection) -> Iterator[Any]:
    """Make the server refuse a command this many times, as if another transaction had written the same document."""
    admin = db.client.admin

    def ask(command: str, times: int) -> None:
        data = {"failCommands": [command], "errorCode": 112, "errorLabels": ["TransientTransactionError"]}
        admin.command("configureFailPoint", "failCommand", mode={"times": times}, data=data)

    yield ask
    admin.command("configureFailPoint", "failCommand", mode="off")


@pytest.mark.parametrize("command", ["insert", "update", "commitTransaction"])
def test_a_unit_is_sent_again_after_a_transient_failure(
    command: str, db: Connection, face: Face, refuse: Any
) -> None:
    company = Company(name="Tea").save()
    person, fresh = Person(company=company, name="a").save(), Person(company=company, name="c")

    def act(unit: Any) -> None:
        # The block's settings are part of the retried command.
        person.name = "b"
        unit.save(person, fresh)

    refuse(command, 2)
    in_unit(db, face, act)
    assert sorted(one.name for one in Person.find()) == ["b", "c"]
    assert (person.rev, person.changes(), fresh.is_new) == (1, {}, False)


def test_a_unit_that_is_refused_for_good_after_a_transient_failure_stores_nothing(
    db: Connection, face: Face, refuse: Any
) -> None:
    Company.sync_indexes()
    taken = Company(name="Tea").save()
    person, double = Person(company=taken, name="a").save(), Company(name="Tea")

    def act(unit: Any) -> None:
        person.name = "b"
        unit.save(person, double)

    refuse("insert", 1)
    with pytest.raises((BulkWriteError, DuplicateKeyError)):
        in_unit(db, face, act)
    assert (person.name, person.rev, person.changes(), double.is_new) == ("a", 0, {}, True)
    assert [one.name for one in Person.find()] == ["a"]


def test_a_unit_whose_block_sent_commands_itself_is_not_sent_again_and_says_so(
    db: Connection, face: Face, refuse: Any
) -> None:
    person = Person(company=Company(name="Tea").save(), name="a").save()

    async def act() -> None:
        async with db.unit() as unit:
            await Person.find(Person.id == person.id).aupdate(inc(Person.rev, 5))
            unit.save(Company(name="Coffee"))

    def act_now() -> None:
        with db.unit() as unit:
            Person.find(Person.id == person.id).update(inc(Person.rev, 5))
            unit.save(Company(name="Coffee"))

    refuse("insert", 1)
    with pytest.raises(OperationFailure) as raised:
        face.wait(act()) if face.is_async else act_now()
    assert "use db.run(function)" in "".join(raised.value.__notes__)
    assert (Company.find().count(), Person.find().one().rev) == (1, 0)


class Stamp(Embedded):
    by: Ref[Person]


class Parcel(Document):
    stamps: list[Stamp] = field(default_factory=list)
    about: AnyRef | None = None
    by_role: dict[str, Ref[Person]] = field(default_factory=dict)


def _refer(how: str, person: Person) -> Document:
    """Return a new document that refers to a person."""
    known = Person(company=person.company, name="known").save()
    match how:
        case "a reference":
            return Letter(sender=person, readers=[])
        case "one of several":
            return Letter(sender=known, readers=[known, person])
        case "an element":
            parcel = Parcel()
            parcel.stamps.append(Stamp(by=person))
            return parcel
        case "a value of a map":
            return Parcel(by_role={"friend": person})  # type: ignore[dict-item]  # becomes a reference
    return Parcel(about=AnyRef(person))


@pytest.mark.parametrize(
    "how", ["a reference", "one of several", "an element", "a value of a map", "one of any model"]
)
def test_a_reference_to_a_new_document_that_the_unit_does_not_save_is_refused(
    how: str, db: Connection, face: Face
) -> None:
    person = Person(company=Company(name="Tea").save(), name="a")
    document = _refer(how, person)
    # Failed documents are restored with their references, so that the same unit is refused again.
    for _ in range(2):
        with pytest.raises(
            OdmError, match=r"got a new Person, ObjectId\(.*\): save it in the unit too, or before"
        ):
            in_unit(db, face, lambda unit: unit.save(document))
    assert (document.is_new, Letter.find().count(), Parcel.find().count()) == (True, 0, 0)
    in_unit(db, face, lambda unit: unit.save(document, person))
    assert not document.is_new
    assert not person.is_new


def test_a_hook_may_save_what_its_document_refers_to(db: Connection) -> None:
    class Sheet(Document):
        owner: BelongsTo[Company]

        @before("save")
        def keep_owner(self) -> None:
            self.owner.save()

    with db.unit() as unit:
        unit.save(Sheet(owner=Company(name="Tea")))
    assert Company.find().count() == 1


def test_a_rolled_back_document_still_has_the_documents_that_it_was_given(db: Connection, face: Face) -> None:
    company = Company(name="Tea").save()
    person, other = Person(company=company, name="a"), Person(company=company, name="b")
    letter = Letter(sender=person, readers=[other])
    letter.answers.append(letter)  # type: ignore[arg-type]  # becomes a reference
    parcel = Parcel(stamps=[Stamp(by=person)], about=AnyRef(other), by_role={"friend": other})  # type: ignore[dict-item]

    def fail(unit: Any) -> None:
        letter.readers.add(company.id)
        parcel.stamps.append(Stamp(by=other))
        raise LookupError

    with pytest.raises(LookupError):
        in_unit(db, face, fail)
    assert letter.sender is person
    assert [one.value for one in letter.readers] == [other]
    assert [one.value for one in letter.answers] == [letter]
    assert [one.by.value for one in parcel.stamps] == [person]
    assert parcel.about is not None
    assert parcel.about.get() is other
    assert parcel.by_role["friend"].value is other


def test_a_cascade_saves_the_documents_of_references_inside(db: Connection, face: Face) -> None:
    company = Company(name="Tea").save()
    person, other, third = (Person(company=company, name=name) for name in "abc")
    parcel = Parcel(stamps=[Stamp(by=person)], about=AnyRef(other))
    parcel.by_role["friend"] = third  # type: ignore[assignment]  # becomes a reference
    face.call(parcel, "save", cascade=True)
    assert sorted(one.name for one in Person.find()) == ["a", "b", "c"]
    node = Node(number=1)
    node.to.append(Node(number=2))  # type: ignore[arg-type]  # becomes a reference
    face.call(node, "save", cascade=True)
    assert sorted(one.number for one in Node.find()) == [1, 2]


def test_a_document_with_references_that_do_not_load_is_saved_and_deleted(db: Connection, face: Face) -> None:
    Node.collection().insert_one({"_id": ObjectId(), "number": 1, "to": ["no id"]})
    node = Node.find().lazy().first()
    assert node is not None
    node.number = 2
    in_unit(db, face, lambda unit: unit.save(node))
    assert Node.collection().find_one({"number": 2, "to": ["no id"]}) is not None
    in_unit(db, face, lambda unit: unit.delete(node))
    assert Node.collection().count_documents({}) == 0
