"""`Document`: a model whose instances are stored in a collection of their own. Spec: crud (write).

Each terminal blocks as `x()` and returns a coroutine as `ax()`, which is made of it; see `odm/_terminal.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Self, TypeVar, overload

from mangonel import _core
from mangonel.bson import ObjectId
from mangonel.odm._terminal import IS_ASYNC, terminal
from mangonel.odm._twins import DocumentTwins
from mangonel.odm.connections.connection import connection
from mangonel.odm.connections.place import Place, connection_of, place_of
from mangonel.odm.expressions.changes import Change
from mangonel.odm.expressions.expr import Where
from mangonel.odm.model.base import Base
from mangonel.odm.model.belongs_to import held
from mangonel.odm.model.convert import DELETED, NEW, PARTIAL
from mangonel.odm.model.fields import Index, field
from mangonel.odm.model.refs import fetch_flow, flat_ids
from mangonel.odm.query.query import Query
from mangonel.odm.query.watch import Changes
from mangonel.odm.store import bulk, writes
from mangonel.odm.store.schema import (
    IndexPlan,
    bson_schema,
    create_collection_flow,
    shard_flow,
    sync_indexes_flow,
)
from mangonel.odm.store.search import SearchIndex, declared_search_indexes, sync_search_flow

if TYPE_CHECKING:
    from typing import Unpack

    from mangonel.api import Collection
    from mangonel.odm.query.options import AggregateOptions, WatchOptions

S = TypeVar("S")


class Document(Base, DocumentTwins):
    """A document of a collection.

    The class describes fields by annotations; what may be set in it beside them:

    - `__collection__`: the collection's name; without it the class's, in snake case.
    - `__connection__`: the alias of the connection; "default".
    - `__indexes__`: a list of `Index`.
    - `__search_indexes__`: a list of `SearchIndex`.
    - `__options__`: `write_concern`, `read_concern` and `read_preference` of its collection.
    - `__collection_options__`: what the driver's `create_collection` takes, such as `capped`.
    - `__default_scope__`: a static method that makes of a query the one that `find()` begins with.
    - `__shard_key__ = {"tenant": 1}`: fields, with 1 or "hashed", by which saves find their shard; fixed.
    - `__view__ = (Order, pipeline)`: the documents are what a pipeline makes of another model's; they are read only.
    - `__root__ = True`: subclasses share the collection, told apart by the key `__tag__`.
    - `__unknown__`: what becomes of keys that no field has: "keep", "ignore" or "forbid".
    - `__on_bad__ = "raw"`: values of the wrong type are loaded as they are instead of raising.
    - `__cast__ = True`: values are converted, as in `age="3"`.
    - `__tz_aware__ = False`: dates have no time zone, and are UTC. By default they have one, and are loaded as UTC.
    - `__dynamic__ = True`: `extra` has the keys that no field has, and may be changed.

    Example:
        >>> class User(Document):
        ...     name: str
        ...     age: int = 0
        >>> User(name="Ada").save().id
        ObjectId('...')
        >>> User.find(User.age > 30).all()
        []
    """

    __abstract__ = True
    __is_document__ = True

    __collection__: ClassVar[str | None] = None
    __connection__: ClassVar[str] = "default"
    __indexes__: ClassVar[list[Index]] = []
    __options__: ClassVar[dict[str, Any]] = {}
    __collection_options__: ClassVar[dict[str, Any]] = {}
    __default_scope__: ClassVar[Any] = None
    __keeps_changes__: ClassVar[bool] = False
    __search_indexes__: ClassVar[list[SearchIndex]] = []
    __shard_key__: ClassVar[Mapping[str, int | str]] = {}
    __view__: ClassVar[tuple[Any, Iterable[Any]] | None] = None

    id: ObjectId = field(default_factory=ObjectId, key="_id")

    # What mixins change.

    @classmethod
    def __stamps__(cls) -> dict[tuple[str, bool], Callable[[], Any]]:
        """Keys that saves set by themselves, each with whether updates do so too, and the function of the value."""
        return {}

    def __stamp__(self, is_new: bool) -> None:
        """Set them."""

    @classmethod
    def __soft_delete__(cls) -> bool:
        return False

    @classmethod
    def __soft_delete_update__(cls) -> dict[str, Any]:
        return {}

    def __note_changes__(self) -> None:
        """Remember what is about to be stored; `__keep_changes__` does, once it is."""

    def __keep_changes__(self) -> None:
        return

    def __saved_changes__(self, *put_back: Any) -> Any:
        """Return what is remembered of saves; or remember again what was returned before."""

    @classmethod
    def __is_root_of_family__(cls) -> bool:
        return bool(cls.__dict__.get("__root__"))

    # Where it is stored.

    @classmethod
    def __collection_name__(cls) -> str:
        name = cls.__collection__
        return name if name is not None else snake_case(cls.__name__)

    @classmethod
    def _bind(cls, is_async: bool) -> Any:
        return connection(cls.__connection__).collection(cls, is_async)

    @classmethod
    @terminal
    def collection(cls) -> Collection[Any]:
        """Return the driver's collection, of the blocking client."""
        found: Collection[Any] = cls._bind(IS_ASYNC)
        return found

    # Asking.

    @classmethod
    def find(cls, *where: Where, on_invalid: Any = None) -> Query[Self]:
        """Return the query for documents that fulfil all conditions; nothing is sent before it is read.

        Args:
            where: conditions such as `User.age > 3`, or query documents.
            on_invalid: what becomes of documents that do not fit the model: "raise", "skip", or a function that is
                called with the ValidationError of each.

        Example:
            >>> [user.name for user in User.find(User.age > 30).sort("-age").limit(10)]
            ['Ada']
        """
        if on_invalid is None and cls.__default_scope__ is None:
            return Query(cls, where)
        return Query(cls)._scoped().find(*where, on_invalid=on_invalid)

    @classmethod
    def unscoped(cls, *where: Where) -> Query[Self]:
        """As `find`, without the default scope."""
        return Query(cls, where)

    @classmethod
    @terminal
    def get(cls, id: Any) -> Self:
        """Return the document with this id, containers decoded.

        Args:
            id: the id, or what it can be made of.

        Raises:
            DocumentNotFound: there is none.
            ValidationError: a value is not what its field says.

        Example:
            >>> User.get(user.id).name
            'Ada'
        """
        made: Self = Query(cls)._by_id(id)._single(IS_ASYNC, "one")
        return made

    @classmethod
    @terminal
    def get_or_none(cls, id: Any) -> Self | None:
        """Return the document with this id, or None.

        Args:
            id: the id.

        Raises:
            ValidationError: a value is not what its field says.

        Example:
            >>> User.get_or_none("nobody") is None
            True
        """
        found: Self | None = Query(cls)._by_id(id)._single(IS_ASYNC, "first")
        return found

    @classmethod
    @terminal
    def get_many(cls, ids: Iterable[Any]) -> list[Self]:
        """Return the documents with these ids, in their order; those that do not exist are left out.

        Args:
            ids: any iterable of ids or references.

        Example:
            >>> [found.name for found in User.get_many([user.id])]
            ['Ada']
        """
        request = cls.find()._request("all", IS_ASYNC)
        made: list[Self] = request.port.flow(_in_order_flow(request, list(ids)))
        return made

    @classmethod
    @terminal
    def estimated_count(cls) -> int:
        """Return about how many documents the collection has, from its metadata; scopes and families do not count.

        Example:
            >>> User.estimated_count()
            2
        """
        found: int = cls._bind(IS_ASYNC).estimated_document_count()
        return found

    # Storing.

    @terminal
    def insert(self, *, validate: bool = True, session: Any = None, write_concern: Any = None) -> Self:
        """Store a new document.

        Args:
            validate: run the `validate` hooks.
            session: of the driver; None for the one of the context, if any.
            write_concern: of the driver; None for the model's, the database's or the client's.

        Raises:
            DuplicateKeyError: its id, or another unique value, is taken. Nothing was stored.
            ValidationError: a value is not what its field says. Nothing was sent.

        Example:
            >>> Post(title="Tea").insert().title
            'Tea'
        """
        place = place_of(self, IS_ASYNC, session, write_concern)
        made: Self = place.port.flow(writes.insert_flow(self, place, validate))
        return made

    @terminal
    def save(
        self,
        *,
        validate: bool = True,
        cascade: bool = False,
        where: Where | None = None,
        session: Any = None,
        write_concern: Any = None,
    ) -> Self:
        """Store what changed by the smallest update; a new document is inserted. Without changes nothing is sent.

        Args:
            validate: run the `validate` hooks.
            cascade: save loaded references first.
            where: a condition that the stored document must fulfil.
            session: of the driver; None for the one of the context, if any.
            write_concern: of the driver; None for the model's, the database's or the client's.

        Raises:
            StaleDocument: it has another version than this one, or does not fulfil `where`. Nothing was stored.
            DocumentNotFound: it does not exist any more.
            DuplicateKeyError: a unique value is taken. Nothing was stored.
            ValidationError: a value is not what its field says. Nothing was sent.

        Example:
            >>> user.age += 1
            >>> user.save().age
            37
        """
        place = place_of(self, IS_ASYNC, session, write_concern)
        made: Self = place.port.flow(writes.save_flow(self, place, validate, cascade, where))
        return made

    @terminal
    def replace(self, *, upsert: bool = False, session: Any = None, write_concern: Any = None) -> Self:
        """Store the whole document in place of the one with its id, unknown keys included.

        Args:
            upsert: True: store it even when there is none with its id.
            session: of the driver; None for the one of the context, if any.
            write_concern: of the driver; None for the model's, the database's or the client's.

        Raises:
            DocumentNotFound: it does not exist, and `upsert` is False.
            ValueError: the document was partly loaded.

        Example:
            >>> user.status = "gone"
            >>> user.replace().status
            'gone'
        """
        place = place_of(self, IS_ASYNC, session, write_concern)
        made: Self = place.port.flow(writes.replace_flow(self, place, upsert))
        return made

    @terminal
    def update(self, *changes: Change, session: Any = None, write_concern: Any = None) -> Self:
        """Send changes such as `inc(User.age)` for this document, and take over what the server made of it.

        Args:
            changes: what `inc`, `set_`, `push` and their like return, or update documents.
            session: of the driver; None for the one of the context, if any.
            write_concern: of the driver; None for the model's, the database's or the client's.

        Raises:
            DocumentNotFound: it does not exist any more.
            StaleDocument: it has unsaved changes, and was saved by somebody else since it was loaded.
            ValueError: a field of the changes has unsaved ones.

        Example:
            >>> user.update(inc(User.age), push(User.tags, "new")).tags
            ['admin', 'new']
        """
        place = place_of(self, IS_ASYNC, session, write_concern)
        made: Self = place.port.flow(writes.update_flow(self, place, changes))
        return made

    @terminal
    def delete(self, *, session: Any = None, write_concern: Any = None) -> None:
        """Delete the document, by the delete rules of the references to it.

        Args:
            session: of the driver; None for the one of the context, if any.
            write_concern: of the driver; None for the model's, the database's or the client's.

        Raises:
            DeleteDenied: a rule forbids it. Nothing was deleted.
            StaleDocument: it has another version than this one. Nothing was deleted, nor changed by a rule.

        Example:
            >>> post.delete()
            >>> Post.get_or_none(post.id) is None
            True
        """
        place = place_of(self, IS_ASYNC, session, write_concern)
        done: None = place.port.flow(writes.delete_flow(self, place))
        return done

    @terminal
    def reload(self, *, keep_changes: bool = False, session: Any = None) -> Self:
        """Load the document again; changes that were not saved are lost.

        Args:
            keep_changes: True: fields with changes that were not saved keep them; the others become what is stored.
            session: of the driver; None for the one of the context, if any.

        Raises:
            DocumentNotFound: it does not exist any more.

        Example:
            >>> user.age = 99
            >>> user.reload().age
            36
        """
        place = place_of(self, IS_ASYNC, session)
        made: Self = place.port.flow(writes.reload_flow(self, place, keep_changes))
        return made

    @classmethod
    @terminal
    def insert_many(
        cls,
        documents: Iterable[Self],
        *,
        ordered: bool = True,
        session: Any = None,
        write_concern: Any = None,
    ) -> int:
        """Store new documents by as few commands as possible; return how many.

        Args:
            documents: new documents.
            ordered: stop at the first that fails. False: try them all.
            session: of the driver; None for the one of the context, if any.
            write_concern: of the driver; None for the model's, the database's or the client's.

        Raises:
            BulkWriteError: some were not stored.

        Example:
            >>> Post.insert_many([Post(title="Tea"), Post(title="Coffee")])
            2
        """
        given = list(documents)
        place = _common_place(cls, given, IS_ASYNC, session, write_concern)
        count: int = place.port.flow(bulk.insert_many_flow(place, given, ordered))
        return count

    @classmethod
    @terminal
    def save_all(
        cls,
        documents: Iterable[Self],
        *,
        ordered: bool = True,
        session: Any = None,
        write_concern: Any = None,
    ) -> int:
        """Save documents by one bulk write of the smallest updates; return how many had changes.

        Args:
            documents: new and changed ones; those without changes are passed over.
            ordered: stop at the first that fails. False: try them all.
            session: of the driver; None for the one of the context, if any.
            write_concern: of the driver; None for the model's, the database's or the client's.

        Raises:
            StaleDocument: one has another version than its stored one; with `ordered=False` the others are stored.
            BulkWriteError: some were not stored.

        Example:
            >>> user.age += 1
            >>> User.save_all([user])
            1
        """
        given = list(documents)
        place = _common_place(cls, given, IS_ASYNC, session, write_concern)
        count: int = place.port.flow(bulk.save_all_flow(place, given, ordered))
        return count

    # Aggregation.

    @overload
    @classmethod
    def aggregate(
        cls, pipeline: Iterable[Any], into: None = None, **options: Unpack[AggregateOptions]
    ) -> list[dict[str, Any]]: ...
    @overload
    @classmethod
    def aggregate(
        cls, pipeline: Iterable[Any], into: type[S], **options: Unpack[AggregateOptions]
    ) -> list[S]: ...
    @classmethod
    @terminal
    def aggregate(
        cls, pipeline: Iterable[Any], into: Any = None, **options: Unpack[AggregateOptions]
    ) -> list[Any]:
        """Run a pipeline; return documents as dicts, or as instances of `into`.

        Args:
            pipeline: the stages.
            into: a model, a dataclass, a TypedDict or another shape.
            options: as for the driver's `aggregate`.

        Raises:
            OperationFailure: the server refused.

        Example:
            >>> User.aggregate([{"$group": {"_id": None, "age": {"$sum": "$age"}}}])
            [{'_id': None, 'age': 60}]
        """
        query = cls.find()
        found: list[Any] = query._run(
            IS_ASYNC, "aggregate", query._aggregate_flow, list(pipeline), into, options
        )
        return found

    @classmethod
    def watch(
        cls,
        pipeline: Iterable[Any] = (),
        *,
        full_document: str | None = "updateLookup",
        **options: Unpack[WatchOptions],
    ) -> Changes[Self]:
        """Return the changes of the collection as events with instances, for either face; opened when first read.

        Args:
            pipeline: stages that narrow the changes.
            full_document: what an update brings beside its keys; None for nothing.
            options: as for the driver's `watch`: `resume_after`, `max_await_time_ms`, ….

        Example:
            >>> changes = Order.watch([{"$match": {"operationType": "insert"}}], max_await_time_ms=500)
        """
        return cls.unscoped().watch(pipeline, full_document=full_document, **options)

    # Indexes and the collection.

    @classmethod
    @terminal
    def sync_indexes(cls, *, plan: bool = False, drop: bool = False) -> IndexPlan:
        """Create the declared indexes that are missing, and rebuild those that differ.

        Args:
            plan: change nothing, and return what would be done.
            drop: also drop indexes that are not declared.

        Returns:
            An `IndexPlan`: `create`, `rebuild`, `drop`, `keep`.

        Raises:
            OperationFailure: the server refused, as for a unique index over values that are not.

        Example:
            >>> Cafe.sync_indexes(plan=True).create
            ['loc_2dsphere']
        """
        collection = cls._bind(IS_ASYNC)
        made: IndexPlan = collection._port.flow(sync_indexes_flow(cls, collection, plan, drop))
        return made

    @classmethod
    def search_indexes(cls) -> dict[str, dict[str, Any]]:
        """Return the declared search and vector indexes by name, as the service has them."""
        return declared_search_indexes(cls)

    @classmethod
    @terminal
    def sync_search_indexes(
        cls, *, plan: bool = False, drop: bool = False, wait_s: float | None = None
    ) -> IndexPlan:
        """Ask for the declared search and vector indexes that are missing, and change those that differ.

        Args:
            plan: change nothing, and return what would be done.
            drop: also drop search indexes that are not declared.
            wait_s: wait so long until they are built. None: not at all.

        Raises:
            OperationFailure: the deployment has no search service, or refused for another reason.
            OdmError: they are not built within `wait_s`.

        Example:
            >>> User.sync_search_indexes(plan=True)
            Traceback (most recent call last):
            OperationFailure: ...
        """
        collection = cls._bind(IS_ASYNC)
        made: IndexPlan = collection._port.flow(sync_search_flow(cls, collection, plan, drop, wait_s))
        return made

    @classmethod
    @terminal
    def shard_collection(cls) -> None:
        """Shard the collection by `__shard_key__`, on a sharded cluster.

        Raises:
            ValueError: the model has none.
            OperationFailure: the deployment is no sharded cluster, or refused for another reason.

        Example:
            >>> User.shard_collection()
            Traceback (most recent call last):
            ValueError: expected a __shard_key__ in User, got none
        """
        collection = cls._bind(IS_ASYNC)
        done: None = collection._port.flow(shard_flow(cls, collection))
        return done

    @classmethod
    def json_schema(cls) -> dict[str, Any]:
        """Return the model as the server's `$jsonSchema`."""
        return bson_schema(cls)

    @classmethod
    @terminal
    def create_collection(cls, *, validate: bool = False) -> None:
        """Create the collection, with `__collection_options__`: capped, timeseries, ….

        Args:
            validate: let the server refuse documents that do not fit the model.

        Raises:
            CollectionInvalid: it exists.

        Example:
            >>> Cafe.create_collection(validate=True)
        """
        collection = cls._bind(IS_ASYNC)
        done: None = collection._port.flow(create_collection_flow(cls, collection, validate))
        return done

    # What it is.

    @property
    def is_new(self) -> bool:
        """Whether it was not stored yet."""
        return bool(_core.odm_flags(self) & NEW)

    @property
    def is_partial(self) -> bool:
        """Whether only some fields were loaded."""
        return bool(_core.odm_flags(self) & PARTIAL)

    @property
    def is_deleted(self) -> bool:
        """Whether it was deleted through this instance."""
        return bool(_core.odm_flags(self) & DELETED)

    def changes(self) -> dict[str, tuple[Any, Any]]:
        """Return the fields that `save()` would store, each with its former and its present value."""
        former = _core.odm_changes(self)
        return {name: (old, held(self, name)) for name, old in former.items()}

    @property
    def is_changed(self) -> bool:
        """Whether `save()` would send something."""
        return self.is_new or bool(_core.odm_changes(self))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Document) or self.__collection_name__() != other.__collection_name__():
            return NotImplemented
        return bool(self.id == other.id)

    def __hash__(self) -> int:  # type: ignore[override]
        id: Any = self.id
        # An id of several fields is an embedded document, which has no hash.
        return hash((self.__collection_name__(), repr(id) if isinstance(id, Base) else id))


def snake_case(name: str) -> str:
    """Return `BlogPost` as `blog_post`."""
    parts: list[str] = []
    for index, letter in enumerate(name):
        is_start = index and letter.isupper()
        if is_start and (not name[index - 1].isupper() or name[index + 1 : index + 2].islower()):
            parts.append("_")
        parts.append(letter.lower())
    return "".join(parts)


async def _in_order_flow(request: Any, ids: list[Any]) -> list[Any]:
    """Fetch documents by ids, in their order."""
    ids = flat_ids(ids)
    found = {repr(document.id): document for document in await fetch_flow(request, ids)}
    return [found[repr(id)] for id in ids if repr(id) in found]


def _common_place(cls: Any, documents: list[Any], is_async: bool, session: Any, write_concern: Any) -> Place:
    """Return the one place where documents are stored.

    Raises:
        ValueError: they are stored in more than one.
    """
    places = {(connection_of(document), document.__collection_name__()) for document in documents}
    if len(places) > 1:
        names = sorted(f"{chosen.name}.{name}" for chosen, name in places)
        raise ValueError(f"expected documents of one collection, got those of {', '.join(names)}")
    if not documents:
        return Place(connection(cls.__connection__), cls, is_async, session, write_concern)
    return place_of(documents[0], is_async, session, write_concern)
