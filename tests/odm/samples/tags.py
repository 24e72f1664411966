"""Many to many: an array of ids on one side, its inverse on the other."""

from __future__ import annotations

from typing import Annotated

from mangonel.odm import Document, Indexed, Many, Refs, field, many


class Tag(Document):
    name: Annotated[str, Indexed(unique=True)]
    articles: Many[Article] = many(by="tags")


class Article(Document):
    title: str
    tags: Refs[Tag] = field(default_factory=Refs)


async def retag(a: Article, t: Tag) -> list[Article]:
    a.tags.add(t)
    await a.asave()
    return await t.articles.query(Article.title != "").sort("-id")


def titles(t: Tag) -> list[str]:
    return [a.title for a in t.articles.query().include(Article.tags)]


untagged = Article(title="x")
