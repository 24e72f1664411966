"""Uses that type checkers must report; each such line says so in a comment. Not run."""

# ruff: noqa: B015, B018
from __future__ import annotations

from samples.accounts import Account
from samples.blog import Bookmark, Post, User
from samples.customers import Measured, Strict

from mangonel.odm import (
    AnyRef,
    Document,
    Email,
    Embedded,
    F,
    Mapped,
    Pipeline,
    Ref,
    Secret,
    Url,
    by_name,
    connect,
    count_commands,
    inc,
    listen,
    mapped,
    max_,
    min_,
    push,
    set_,
    set_on_insert,
)


class Contact(Document):
    mail: Email
    home: Url | None = None
    token: Secret | None = None
    about: AnyRef | None = None
    friends: list[Ref[User]]


class Name(Embedded):
    name: str


class Score(Document):
    points: Mapped[int] = mapped(default="x")  # wrong


contact = Contact(mail="ada@example.org", friends=[])
db = connect("mongodb://localhost/typing")

User(name=1, email="x")  # wrong
User(nme="x", email="x")  # wrong
User.agee  # wrong
User.age > "x"  # wrong
Strict.n.in_(["x"])  # wrong
inc(User.name)  # wrong
push(Post.tags, 3)  # wrong
F(User.age).set("x")  # wrong
User.find().update(set_(User.age, "x"))  # wrong
User.find().update(set_(User.name, 3))  # wrong
User.find().update(set_(User.name, ["x"]))  # wrong
User.find().update(set_(Measured.note, 3))  # wrong
User.find().update(set_(Measured.share, "x"))  # wrong
User.find().update(set_on_insert(User.age, "x"))  # wrong
User.find().update(min_(User.age, "x"), inc(User.age))  # wrong
User.find().update(max_(User.name, 3))  # wrong
Strict(n=1, s="a", score="x")  # wrong
User.find(~(User.age > 1))  # wrong
-Post.created_at  # wrong
Account.id == "x"  # wrong

# Types of texts, and references inside containers.
Contact(mail=3, friends=[])  # wrong
Contact(mail="ada@example.org", token="s3cr3t", friends=[])  # wrong
Contact(mail="ada@example.org", about="x", friends=[])  # wrong
Contact(mail="ada@example.org", friends=["x"])  # wrong
Contact.mail > 3  # wrong
contact.home.upper()  # wrong
contact.friends[0].value.nme  # wrong
Secret(3)  # wrong

# A reference whose attribute is the document.
Bookmark.find().one().post.nme  # wrong
Bookmark.find().one().reader.name  # wrong
Bookmark()  # wrong

# What operations return.
User.find().values(User.name)[0] + 1  # wrong
User.find().distinct(User.name)[0] + 1  # wrong
User.find().max(User.age).bit_length()  # wrong
User.find().aggregate([], into=Name)[0].nme  # wrong

# Wrong words, and those that are missing.
User.find().options(limt=3)  # wrong
db.transaction(retyr=True)  # wrong
db.session(causal=True)  # wrong
Pipeline().limit("3")  # wrong
Pipeline().group(User.name, people=3)  # wrong
by_name()  # wrong
listen("after", "save")  # wrong
count_commands("x")  # wrong
