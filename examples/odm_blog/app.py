"""A blog: references fetched together, embedded comments, paging by key, soft deletion. Each step on both faces.

pip install "mangonel[odm]"
MONGODB_URI=mongodb://localhost:27017/blog python app.py
"""

from __future__ import annotations

import datetime as dt
import os
from typing import Annotated, Any, ClassVar, Literal, Self

from annotated_types import Len, MaxLen

from mangonel.odm import (
    Document,
    Embedded,
    Index,
    Indexed,
    Many,
    ObjectId,
    Page,
    Query,
    Ref,
    SoftDelete,
    Timestamps,
    before,
    connect,
    desc,
    each,
    field,
    inc,
    many,
    now,
    push,
    scope,
)


class Author(Document):
    name: Annotated[str, MaxLen(80)]
    email: Annotated[str, Indexed(unique=True)]
    posts: Many[Post] = many(by="author", order="-created_at")


class Comment(Embedded):
    author: Ref[Author]
    text: Annotated[str, Len(1, 2000)]
    at: dt.datetime = field(default_factory=now)


class Post(Timestamps, SoftDelete):
    __indexes__: ClassVar[list[Index]] = [Index("tags", desc("created_at"))]
    title: Annotated[str, MaxLen(200)]
    body: str
    author: Ref[Author] = field(on_delete="deny")
    state: Literal["draft", "published"] = "draft"
    tags: list[str] = field(default_factory=list)
    comments: list[Comment] = field(default_factory=list, lazy=True)
    views: int = 0

    @before("save")
    def _strip(self) -> None:
        self.title = self.title.strip()

    @scope
    @classmethod
    def published(cls) -> Query[Self]:
        return cls.find(Post.state == "published")


class Card(Embedded):
    """The part of a post for the front page; only these keys are fetched."""

    id: ObjectId = field(key="_id")
    title: str
    views: int


def publish(post: Post) -> Post:
    """Publish a post; `save` sends only the changes."""
    post.state = "published"
    return post.save()


async def apublish(post: Post) -> Post:
    post.state = "published"
    return await post.asave()


def tagged(tag: str, after: str | None = None, size: int = 10) -> Page[Post]:
    """Return a page of posts with a tag, the newest first; one more query fetches all their authors."""
    return by_tag(tag).page(size, after)


async def atagged(tag: str, after: str | None = None, size: int = 10) -> Page[Post]:
    return await by_tag(tag).apage(size, after)


def by_tag(tag: str) -> Query[Post]:
    return Post.published().find(each(Post.tags) == tag).sort("-created_at").include(Post.author)


def comment(post: ObjectId, author: Author, text: str) -> int:
    """Add a comment and count a view without reading the post; return 0 if it does not exist."""
    return Post.published().find(Post.id == post).update(*commented(author, text))


async def acomment(post: ObjectId, author: Author, text: str) -> int:
    return await Post.published().find(Post.id == post).aupdate(*commented(author, text))


def commented(author: Author, text: str) -> tuple[Any, ...]:
    return push(Post.comments, Comment(author=author, text=text)), inc(Post.views)


def front(size: int = 5) -> list[Card]:
    """Return the most viewed posts."""
    return Post.published().sort("-views").limit(size).as_(Card).all()


async def afront(size: int = 5) -> list[Card]:
    return await Post.published().sort("-views").limit(size).as_(Card)


def feed(size: int = 30) -> bytes:
    """Return the newest posts as JSON, made from BSON without Python objects."""
    return Post.published().sort("-created_at").limit(size).json(exclude=[Post.comments])


async def afeed(size: int = 30) -> bytes:
    return await Post.published().sort("-created_at").limit(size).ajson(exclude=[Post.comments])


if __name__ == "__main__":
    db = connect(os.environ.get("MONGODB_URI", "mongodb://localhost:27017/blog"))
    ada = Author.find(Author.email == "ada@example.org").first()
    ada = ada or Author(name="Ada", email="ada@example.org").save()
    first = publish(Post(title="Tea", body="Water, leaves.", author=ada, tags=["drinks"]))
    comment(first.id, ada, "Five minutes.")
    for post in tagged("drinks").items:
        print(post.title, "by", post.author.value.name, "with", len(post.comments), "comments")
    db.close()
