"""The samples of the documentation, run against a server; the models of each on both faces."""

from __future__ import annotations

import datetime as dt
import json
import sys
from pathlib import Path
from typing import Any

import pytest

from mangonel.odm import Connection, Point, Ref

sys.path.insert(0, str(Path(__file__).parent))

from samples import accounts, blog, cafes, customers, tags


def posts(face: Any, author: blog.User, count: int) -> list[blog.Post]:
    made = [
        blog.Post(
            title=f" post {n} ",
            body="text " * 20,
            author=author,
            status="published",
            tags=["python"] if n % 2 else ["rust"],
            views=10,
            created_at=dt.datetime(2024, 1, 1, tzinfo=dt.UTC) + dt.timedelta(minutes=n),
        )
        for n in range(count)
    ]
    face.call(blog.Post, "insert_many", made)
    return made


def test_blog(db: Connection, face: Any) -> None:
    plan = face.call(blog.Post, "sync_indexes", plan=True)
    assert len(plan.create) == 2
    face.call(blog.Post, "sync_indexes")
    assert not face.call(blog.Post, "sync_indexes", plan=True)
    ada = blog.User(name="Ada", email="a@x")
    face.save(ada)
    blog.announced.clear()
    made = posts(face, ada, 50)
    assert blog.announced[0] == "post 0"

    page = face.wait(blog.by_tag("python", None)) if face.is_async else None
    if page is not None:
        assert len(page) == 20
        assert page.items[0].title == "post 49"
        assert page.items[0].author.value == ada
        second = face.wait(blog.by_tag("python", page.next))
        assert (len(second), second.next) == (5, None)
        assert json.loads(face.wait(blog.feed_json()))[0]["title"] == "post 49"
        face.wait(blog.comment(made[0].id, ada, "well"))
        assert [post.id for post in face.wait(blog.hot(-1))] == [made[0].id]
        assert face.wait(blog.hot(0)) == []
    else:
        assert [card.title for card in blog.cards("python")][:1] == ["post 1"]
        assert blog.cards("python")[0].author == Ref(ada)
        made[0].status = made[1].status = "draft"
        made[0].save()
        assert blog.publish(db, made) == 1
        assert blog.Post.published().count() == 50
    assert face.call(ada.posts, "count") == 50
    assert face.call(ada.posts.query(blog.Post.title == "post 3"), "one").id == made[3].id


def test_cafes(db: Connection, face: Any) -> None:
    face.call(cafes.Cafe, "sync_indexes")
    face.save(
        cafes.Cafe(name="Espresso bar", loc=Point(13.4, 52.5), rating=4.5),
        cafes.Cafe(name="Tea room", loc=Point(13.4, 52.5), rating=5),
        cafes.Cafe(name="Far espresso", loc=Point(2.3, 48.8), rating=5),
    )
    if face.is_async:
        ring = ((13.0, 52.0), (14.0, 52.0), (14.0, 53.0), (13.0, 53.0))
        assert [cafe.name for cafe in face.wait(cafes.in_area(*ring))] == ["Espresso bar"]
    else:
        assert sorted(cafe.name for cafe in cafes.near_me(13.401, 52.5)) == ["Espresso bar", "Tea room"]


def test_tags(db: Connection, face: Any) -> None:
    python, rust = tags.Tag(name="python"), tags.Tag(name="rust")
    face.save(python, rust)
    article = tags.Article(title="one", tags=[python])
    face.save(article)
    if face.is_async:
        assert [found.title for found in face.wait(tags.retag(article, rust))] == ["one"]
        assert article.collection().find_one()["tags"] == [python.id, rust.id]
    else:
        assert tags.titles(python) == ["one"]
        assert tags.titles(rust) == []


def test_accounts(db: Connection, face: Any) -> None:
    account = accounts.Account(owner="Ada", cents=10)
    face.save(account)
    if face.is_async:
        found = face.wait(accounts.deposit(account.id, 5))
        assert (found.cents, found.rev) == (15, 1)
    else:
        assert (accounts.withdraw(account.id, 3).cents, accounts.withdraw(account.id, 3).rev) == (7, 2)


def test_customers(db: Connection, face: Any) -> None:
    ada = customers.Customer(
        name="Ada", address=customers.Address(city="Oslo"), pay=customers.Iban(iban="NO1"), phone="1"
    )
    eve = customers.Customer(
        name="Eve", address=customers.Address(city="Oslo"), pay=customers.Card(last4="42")
    )
    face.save(ada, eve)
    assert [type(found.pay) for found in face.call(customers.Customer.find().sort("name"), "all")] == [
        customers.Iban,
        customers.Card,
    ]
    if face.is_async:
        face.wait(customers.move(ada, "Rome"))
        found = ada.collection().find_one({"_id": ada.id})
        assert found["address"] == {"city": "Rome"}
        assert "phone" not in found
    else:
        assert customers.by_city("Oslo") == 2
        assert customers.light(ada.id) == "Ada"


def test_shapes_and_typed_fields(db: Connection, face: Any) -> None:
    face.save(customers.Circle(name="c", r=2), customers.Rect(name="r", w=2, h=3), customers.Shape(name="s"))
    assert face.call(customers.Circle.find(), "count") == 1
    assert face.call(customers.Shape.find(), "count") == 3
    found = face.collect(customers.Shape.find().sort("name"))
    assert [type(shape) for shape in found] == [customers.Circle, customers.Rect, customers.Shape]
    if face.is_async:
        assert face.wait(customers.area()) == pytest.approx(3.14159 * 4 + 6)
    face.save(customers.Strict(n=1, s="ab"), customers.Strict(n=3, s="ab"))
    assert face.call(customers.q, "count") == 1
