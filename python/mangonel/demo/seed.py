"""Creates the initial data: collections, indexes, demo users, posts. Running it again adds nothing."""

from __future__ import annotations

import asyncio
import random
import secrets
from datetime import UTC, datetime, timedelta

from mangonel.demo.accounts import SALT, hashed
from mangonel.demo.models import MODELS, Account, Post
from mangonel.demo.names import CITIES, FIRST, LAST, SUBJECTS, THOUGHTS
from mangonel.errors import BulkWriteError, CollectionInvalid, DuplicateKeyError
from mangonel.odm import Point

USERS = {"ada": "Ada, head of the shop", "linus": "Linus, night shift"}
POSTS = 1000
# Degrees around a city's centre.
SPREAD = 0.35


async def seed(password: str) -> None:
    """Create missing data."""
    for model in MODELS:
        try:
            # Snapshots and change streams need existing collections.
            await model.acreate_collection()
        except CollectionInvalid:
            continue
        finally:
            await model.async_indexes()
    for name, title in USERS.items():
        if await Account.aget_or_none(name) is None:
            salt = secrets.token_bytes(SALT)
            digest = await asyncio.to_thread(hashed, password, salt)
            try:
                await Account(id=name, password=digest, salt=salt, title=title).ainsert()
            except DuplicateKeyError:
                continue  # another process is seeding at the same time
    if not await Post.find().aexists():
        try:
            await Post.ainsert_many(_posts())
        except BulkWriteError:
            return


def _posts() -> list[Post]:
    # The same posts everywhere, so that screenshots and tests are reproducible.
    chance = random.Random(1815)
    began = datetime(2026, 1, 1, tzinfo=UTC)
    posts = []
    for number in range(POSTS):
        city, (lon, lat) = chance.choice(list(CITIES.items()))
        posts.append(
            Post(
                title=f"{chance.choice(SUBJECTS)}, {city}",
                body=" ".join(chance.sample(THOUGHTS, 3)),
                author=f"{chance.choice(FIRST)} {chance.choice(LAST)}",
                city=city,
                place=Point(round(chance.gauss(lon, SPREAD), 4), round(chance.gauss(lat, SPREAD / 2), 4)),
                written=began + timedelta(minutes=17 * number),
            )
        )
    return posts
