"""The types of the mapper's terminals and their twins: checked by `test_revealed_types.py`, never run."""

from mangonel.odm import Connection, Document, F, File, Many, Query, Ref, Refs, add_to_set, field, inc, pull, set_


class User(Document):
    name: str
    age: int = 0
    boss: Ref["User"]
    friends: Refs["User"]
    team: Many["User"]
    photo: File


def blocking(user: User, users: Query[User], db: Connection) -> None:
    reveal_type(user.save())  # R: User
    reveal_type(User.get(1))  # R: User
    reveal_type(User.insert_many([user]))  # R: int
    reveal_type(User.collection())  # R: Collection[Any]
    reveal_type(users.first())  # R: User | None
    reveal_type(users.distinct(User.age))  # R: list[int]
    reveal_type(users.values(User.name, User.age))  # R: list[tuple[str, int]]
    reveal_type(users.aggregate([], into=User))  # R: list[User]
    reveal_type(users.iter_arrow())  # R: Iterator[ArrowTable]
    reveal_type(db.client)  # R: MongoClient[Any]
    reveal_type(db.run(lambda: user.save()))  # R: User
    user.save(where=1)  # E: incompatible type "int"
    user.save(is_async=True)  # E: Unexpected keyword argument


async def on_asyncio(user: User, users: Query[User], db: Connection) -> None:
    reveal_type(await user.asave())  # R: User
    user.asave()  # E: Value of type "Coroutine[Any, Any, User]" must be used
    reveal_type(await User.aget(1))  # R: User
    reveal_type(await User.ainsert_many([user]))  # R: int
    reveal_type(User.acollection())  # R: AsyncCollection[Any]
    reveal_type(await users.afirst())  # R: User | None
    reveal_type(await users.adistinct(User.age))  # R: list[int]
    reveal_type(await users.avalues(User.name, User.age))  # R: list[tuple[str, int]]
    reveal_type(await users.aaggregate([], into=User))  # R: list[User]
    reveal_type(users.aiter_arrow())  # R: AsyncIterator[ArrowTable]
    reveal_type(await user.boss.aget())  # R: User
    reveal_type(await user.friends.aall())  # R: list[User]
    reveal_type(await user.team.acount())  # R: int
    reveal_type(await user.photo.aread())  # R: bytes
    reveal_type(db.aclient)  # R: AsyncMongoClient[Any]
    reveal_type(await db.arun(lambda: user.asave()))  # R: User
    await user.asave(where=1)  # E: incompatible type "int"
    await users.acount(1)  # E: Too many arguments


class Parcel(Document):
    extra: str = ""
    tags: set[str] = field(default_factory=set)
    marks: frozenset[int] = frozenset()


def typed(user: User, parcel: Parcel, db: Connection) -> None:
    reveal_type(parcel.extra)  # R: str
    Parcel(extra=1)  # E: incompatible type "int"
    Parcel.find().update(pull(Parcel.tags, "a"), add_to_set(Parcel.marks, 3), pull(Parcel.marks, 3))
    pull(Parcel.extra, "a")  # E: incompatible type "str"
    reveal_type(user.friends[0])  # R: Ref[User]
    reveal_type(user.friends[:2])  # R: list[Ref[User]]
    reveal_type([friend.value for friend in user.friends])  # R: list[User]
    with db.transaction() as transaction:
        reveal_type(transaction)  # R: Transaction
    with db.unit() as unit:
        reveal_type(unit)  # R: Unit
    with User.watch() as changes:
        for event in changes:
            reveal_type(event)  # R: Event[User]
            reveal_type(event.document)  # R: User | None
    User.find().update(set_(User.age, F(User.age) + 1))
    reveal_type(F(User.age) + 1)  # R: Computed[int]

    @db.transaction(retry=True)
    def named(name: str) -> User:
        return User.get(name)

    reveal_type(named("a"))  # R: User
    named(1)  # E: incompatible type "int"


async def typed_on_asyncio(user: User, db: Connection) -> None:
    async with db.transaction() as transaction:
        reveal_type(transaction)  # R: Transaction
    async with db.unit() as unit:
        reveal_type(unit)  # R: Unit
    async with db.session() as session:
        reveal_type(session)  # R: SessionBlock
    async with User.watch() as changes:
        async for event in changes:
            reveal_type(event)  # R: Event[User]

    @db.transaction(retry=True)
    async def named(name: str) -> User:
        return await User.aget(name)

    reveal_type(await named("a"))  # R: User
