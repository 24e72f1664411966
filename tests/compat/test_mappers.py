"""Libraries that are built on PyMongo or Motor define, save, query and delete on this driver."""

from __future__ import annotations

import sys

import pytest

INSTALL = "import os, mangonel.compat; mangonel.compat.install_as_motor()\n"


def test_mongoengine_runs_on_this_driver(program, place):
    pytest.importorskip("mongoengine")
    program(
        INSTALL
        + """
import mongoengine as me
client = me.connect(os.environ["TEST_DATABASE"], host=os.environ["TEST_URI"], uuidRepresentation="standard")
assert type(client).__module__ == "mangonel.api"

class Author(me.Document):
    name = me.StringField(required=True, unique=True)

class Post(me.Document):
    title = me.StringField()
    tags = me.ListField(me.StringField())
    author = me.ReferenceField(Author)

ada = Author(name="Ada").save()
for n in range(5):
    Post(title=f"t{n}", tags=["a"], author=ada).save()
post = Post.objects(title="t3").first()
assert post.author.name == "Ada"
post.tags.append("b")
post.save()
assert Post.objects(tags="b").count() == 1
assert [p.title for p in Post.objects.order_by("-title")[:2]] == ["t4", "t3"]
assert Post.objects.update(set__title="same") == 5
try:
    Author(name="Ada").save()
except me.NotUniqueError:
    pass
else:
    raise AssertionError
post.delete()
assert Post.objects.count() == 4
Post.drop_collection()
"""
    )


def test_beanie_runs_on_this_driver(program, place):
    pytest.importorskip("beanie")
    program(
        INSTALL
        + """
import asyncio
from beanie import Document, init_beanie
from pymongo import AsyncMongoClient

class Post(Document):
    title: str
    score: int = 0

async def main():
    client = AsyncMongoClient(os.environ["TEST_URI"])
    assert type(client).__module__ == "mangonel.api"
    await init_beanie(database=client[os.environ["TEST_DATABASE"]], document_models=[Post])
    post = await Post(title="a").insert()
    await Post.insert_many([Post(title="b", score=n) for n in range(3)])
    post.score = 9
    await post.save()
    assert (await Post.find_one(Post.score == 9)).title == "a"
    assert len(await Post.find(Post.title == "b").sort(-Post.score).to_list()) == 3
    await Post.find(Post.title == "b").inc({Post.score: 1})
    assert await Post.find(Post.title == "b").sum(Post.score) == 6
    await post.delete()
    assert await Post.count() == 3
    await client.close()

asyncio.run(main())
"""
    )


@pytest.mark.skipif(
    sys.version_info >= (3, 14), reason="ODMantic 1.1.0 makes no models on 3.14 with any driver"
)
def test_odmantic_runs_on_this_driver(program, place):
    pytest.importorskip("odmantic")
    program(
        INSTALL
        + """
import asyncio
from motor.motor_asyncio import AsyncIOMotorClient
from odmantic import AIOEngine, Model, SyncEngine
from pymongo import MongoClient

class Post(Model):
    title: str
    score: int = 0

async def main():
    client = AsyncIOMotorClient(os.environ["TEST_URI"])
    engine = AIOEngine(client=client, database=os.environ["TEST_DATABASE"])
    post = await engine.save(Post(title="a"))
    await engine.save_all([Post(title="b", score=n) for n in range(3)])
    assert len(await engine.find(Post, Post.title == "b", sort=Post.score.desc())) == 3
    assert (await engine.find_one(Post, Post.title == "a")).id == post.id
    await engine.delete(post)
    assert await engine.count(Post) == 3
    client.close()

asyncio.run(main())
with MongoClient(os.environ["TEST_URI"]) as client:
    engine = SyncEngine(client=client, database=os.environ["TEST_DATABASE"])
    engine.save(Post(title="c"))
    assert engine.count(Post) == 4
"""
    )


def test_umongo_runs_on_this_driver(program, place):
    pytest.importorskip("umongo")
    program(
        INSTALL
        + """
import asyncio
from motor.motor_asyncio import AsyncIOMotorClient
from pymongo import MongoClient
from umongo import Document, fields
from umongo.frameworks import MotorAsyncIOInstance, PyMongoInstance

client = MongoClient(os.environ["TEST_URI"])
instance = PyMongoInstance(client[os.environ["TEST_DATABASE"]])

@instance.register
class Post(Document):
    title = fields.StrField(required=True)

post = Post(title="a")
post.commit()
assert Post.find_one({"title": "a"}).pk == post.pk
assert [found.title for found in Post.find()] == ["a"]
post.delete()
assert Post.count_documents() == 0
client.close()

async def main():
    client = AsyncIOMotorClient(os.environ["TEST_URI"])
    instance = MotorAsyncIOInstance(client[os.environ["TEST_DATABASE"]])

    @instance.register
    class Note(Document):
        title = fields.StrField(required=True)

    note = Note(title="a")
    await note.commit()
    assert [found.title for found in await Note.find().to_list(10)] == ["a"]
    await note.delete()
    assert await Note.count_documents() == 0
    client.close()

asyncio.run(main())
"""
    )


def test_flask_pymongo_runs_on_this_driver(program, place):
    pytest.importorskip("flask_pymongo")
    program(
        INSTALL
        + """
from flask import Flask
from flask_pymongo import PyMongo
app = Flask("posts")
mongo = PyMongo(app, uri=os.environ["TEST_URI"].replace("/?", "/" + os.environ["TEST_DATABASE"] + "?"))

@app.route("/<int:id>")
def show(id):
    return {"title": mongo.db.posts.find_one_or_404({"_id": id})["title"]}

with app.app_context():
    mongo.db.posts.insert_one({"_id": 1, "title": "a"})
    http = app.test_client()
    assert http.get("/1").json == {"title": "a"}
    assert http.get("/2").status_code == 404
    mongo.db.posts.delete_one({"_id": 1})
    assert http.get("/1").status_code == 404
"""
    )


def test_djangos_models_run_on_this_driver(program, place, tmp_path, monkeypatch):
    pytest.importorskip("django_mongodb_backend")
    (tmp_path / "shop").mkdir()
    (tmp_path / "shop" / "__init__.py").touch()
    (tmp_path / "shop" / "models.py").write_text(
        """
from django.db import models

class Customer(models.Model):
    name = models.CharField(max_length=50, unique=True)
    is_known = models.BooleanField(default=False)

class Order(models.Model):
    customer = models.ForeignKey(Customer, on_delete=models.CASCADE)
    total = models.DecimalField(max_digits=8, decimal_places=2)
"""
    )
    monkeypatch.setenv("SHOP", str(tmp_path))
    program(
        INSTALL
        + """
import sys
sys.path.insert(0, os.environ["SHOP"])
import django
from django.conf import settings
settings.configure(
    DATABASES={
        "default": {
            "ENGINE": "django_mongodb_backend",
            "NAME": os.environ["TEST_DATABASE"],
            "HOST": os.environ["TEST_URI"],
        }
    },
    INSTALLED_APPS=["shop"],
    DEFAULT_AUTO_FIELD="django_mongodb_backend.fields.ObjectIdAutoField",
)
django.setup()
from django.core.management import call_command
from django.db import IntegrityError
from django.db.models import Count, Q, Sum
call_command("migrate", run_syncdb=True, verbosity=0)
from shop.models import Customer, Order

Customer.objects.bulk_create(Customer(name=f"c{n}", is_known=n % 2 == 0) for n in range(5))
for n, customer in enumerate(Customer.objects.order_by("name")):
    Order.objects.create(customer=customer, total=n)
assert Customer.objects.filter(Q(is_known=True) | Q(name="c1")).count() == 4
counted = Customer.objects.values("is_known").annotate(n=Count("id")).order_by("is_known")
assert [each["n"] for each in counted] == [2, 3]
assert Order.objects.filter(customer__name__startswith="c").aggregate(sum=Sum("total")) == {"sum": 10}
dear = Order.objects.select_related("customer").filter(total__gte=3).order_by("total")
assert [order.customer.name for order in dear] == ["c3", "c4"]
Customer.objects.filter(name="c0").delete()
assert Order.objects.count() == 4
try:
    Customer.objects.create(name="c1")
except IntegrityError as error:
    assert type(error.__cause__).__module__ == "mangonel.errors", error
else:
    raise AssertionError
"""
    )
