"""A posts API: JSON straight from BSON, paging by key, search by words and by location.

    pip install "mangonel[fastapi]" uvicorn
    MONGODB_URI=mongodb://localhost:27017 uvicorn app:app

Copy it and change the model. Note that no document of a response ever becomes a Python object.
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import Annotated, Any

from fastapi import FastAPI, HTTPException, Query, Request, Response
from pydantic import BaseModel, Field

from mangonel import GEOSPHERE, TEXT, AsyncMongoClient
from mangonel.bson import ObjectId

Size = Annotated[int, Query(ge=1, le=100)]
Longitude = Annotated[float, Query(ge=-180, le=180)]
Latitude = Annotated[float, Query(ge=-90, le=90)]
Kilometres = Annotated[float, Query(gt=0, le=1000)]


class NewPost(BaseModel):
    """The request body of a new post."""

    title: str = Field(min_length=1, max_length=120)
    body: str = Field(max_length=20_000)
    lon: float = Field(ge=-180, le=180)
    lat: float = Field(ge=-90, le=90)


@asynccontextmanager
async def lifespan(app: FastAPI) -> AsyncIterator[None]:
    """One client for the whole process, made at the start; indexes are created once and then stay."""
    uri = app.state.uri or os.environ.get("MONGODB_URI", "mongodb://localhost:27017")
    async with AsyncMongoClient(uri, timeoutMS=5000) as client:
        posts = app.state.posts = client.get_default_database("blog").posts
        await posts.create_index([("title", TEXT), ("body", TEXT)], weights={"title": 3})
        await posts.create_index([("place", GEOSPHERE)])
        yield


def create_app(uri: str | None = None) -> FastAPI:
    """Make the application; tests pass their own deployment."""
    app = FastAPI(title="Posts", lifespan=lifespan)
    app.state.uri = uri

    @app.get("/posts")
    async def list_posts(request: Request, size: Size = 20, after: str | None = None) -> Response:
        """Return the newest posts. `after` is the `_id` of the previous page's last post. Paging by key makes the
        thousandth page as cheap as the first, and new posts do not shift pages."""
        query = {} if after is None else {"_id": {"$lt": parse_id(after)}}
        return await as_json(request.app.state.posts.find(query).sort("_id", -1).limit(size))

    @app.get("/posts/search")
    async def search(request: Request, text: str, size: Size = 20) -> Response:
        """Return the posts that match these words best."""
        score: dict[str, Any] = {"score": {"$meta": "textScore"}}
        found = request.app.state.posts.find({"$text": {"$search": text}}, score)
        return await as_json(found.sort([("score", {"$meta": "textScore"})]).limit(size))

    @app.get("/posts/near")
    async def near(
        request: Request, lon: Longitude, lat: Latitude, km: Kilometres = 5, size: Size = 20
    ) -> Response:
        """Return the posts around a location, the nearest first."""
        point = {"type": "Point", "coordinates": [lon, lat]}
        query = {"place": {"$nearSphere": {"$geometry": point, "$maxDistance": km * 1000}}}
        return await as_json(request.app.state.posts.find(query).limit(size))

    @app.get("/posts/{post_id}")
    async def one_post(request: Request, post_id: str) -> Response:
        """Return one post, as an array of one."""
        answer = await as_json(request.app.state.posts.find({"_id": parse_id(post_id)}).limit(1))
        if answer.body == b"[]":
            raise HTTPException(404, "no such post")
        return answer

    @app.post("/posts", status_code=201)
    async def write_post(request: Request, post: NewPost) -> dict[str, str]:
        """Store a post and return its id."""
        place = {"type": "Point", "coordinates": [post.lon, post.lat]}
        document = {"title": post.title, "body": post.body, "place": place, "written": datetime.now(UTC)}
        result = await request.app.state.posts.insert_one(document)
        return {"_id": str(result.inserted_id)}

    return app


async def as_json(found: Any) -> Response:
    """Respond with a cursor's documents as a JSON array, with ids and dates as text."""
    return Response(await found.to_json("plain"), media_type="application/json")


def parse_id(text: str) -> ObjectId:
    """Parse an id from a request, or refuse it."""
    if not ObjectId.is_valid(text):
        raise HTTPException(422, "expected an id of 24 hexadecimal digits")
    return ObjectId(text)


app = create_app()
