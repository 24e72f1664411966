"""A blog: references, embedded lists, scopes, hooks, pages, bulk saves."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable
from typing import Annotated, Literal, Self

from annotated_types import Ge, Le, Len, MaxLen

from mangonel.odm import (
    BelongsTo,
    Connection,
    Document,
    Embedded,
    Index,
    Indexed,
    Many,
    ObjectId,
    Page,
    Query,
    Ref,
    after,
    before,
    desc,
    each,
    elem,
    field,
    in_,
    inc,
    many,
    now,
    push,
    ref_of,
    scope,
)

announced: list[str] = []


class User(Document):
    name: Annotated[str, MaxLen(80)]
    email: Annotated[str, Indexed(unique=True)]
    age: Annotated[int, Ge(0), Le(150)] = 0
    posts: Many[Post] = many(by="author", order="-created_at")


class Comment(Embedded):
    author: Ref[User]
    text: Annotated[str, Len(1, 2000)]
    at: dt.datetime = field(default_factory=now)
    likes: int = 0


class Post(Document):
    __indexes__ = [Index("author", desc("created_at")), Index("title", "body", kind="text")]  # noqa: RUF012
    title: Annotated[str, MaxLen(200)]
    body: str = field(lazy=True)
    author: Ref[User]
    status: Literal["draft", "published"] = "draft"
    tags: list[str] = field(default_factory=list)
    comments: list[Comment] = field(default_factory=list, lazy=True)
    views: int = 0
    created_at: dt.datetime = field(default_factory=now)

    @before("save")
    def _strip(self) -> None:
        self.title = self.title.strip()

    @after("commit")
    def _announce(self) -> None:
        announced.append(self.title)

    @scope
    @classmethod
    def published(cls) -> Query[Self]:
        return cls.find(Post.status == "published")


class Bookmark(Document):
    post: BelongsTo[Post]
    reader: BelongsTo[User] | None = None


class PostCard(Embedded):
    title: str
    created_at: dt.datetime
    author: Ref[User]


async def by_tag(tag: str, after_: str | None) -> Page[Post]:
    return await (
        Post.published()
        .find(in_(each(Post.tags), [tag]), Post.views >= 10)
        .sort(desc(Post.created_at))
        .include(Post.author)
        .apage(size=20, after=after_)
    )


async def feed_json() -> bytes:
    return await Post.published().sort(desc(Post.created_at)).limit(30).ajson()


def cards(tag: str) -> list[PostCard]:
    return list(Post.find({"tags": tag}).as_(PostCard))


async def comment(post_id: ObjectId, u: User, body: str) -> None:
    await Post.find(Post.id == post_id).aupdate(
        push(Post.comments, Comment(author=u, text=body)), inc(Post.views)
    )


async def hot(n: int) -> list[Post]:
    return await Post.find(elem(Post.comments, lambda c: (c.likes > n) & (c.text != "")))


def publish(db: Connection, ps: Iterable[Post]) -> int:
    with db.transaction():
        ps = list(ps)
        for p in ps:
            p.status = "published"
        return Post.save_all(ps)


def bookmark(p: Post, reader: ObjectId) -> tuple[str, str | None, object]:
    made = Bookmark(post=p)
    made.reader = reader
    made.post = p
    made.save()
    found = Bookmark.find(Bookmark.post == p, Bookmark.reader == reader).include(Bookmark.post).one()
    ref = ref_of(found, "post")
    return found.post.title, found.reader.name if found.reader else None, ref.id if ref else None
