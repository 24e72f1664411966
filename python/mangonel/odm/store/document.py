"""`Document`: a model whose instances are stored in a collection. Spec: crud (write).

Each terminal blocks as `x()`; its twin `ax()` returns a coroutine; see `odm/_terminal.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, ClassVar, Self, TypeVar, overload

from mangonel import _core
from mangonel._arguments import expect
from mangonel._core import slots_like
from mangonel.bson import ObjectId
from mangonel.odm._terminal import IS_ASYNC, terminal
from mangonel.odm._twins import DocumentTwins
from mangonel.odm.connections.connection import connection
from mangonel.odm.connections.place import Place, connection_of, place_of
from mangonel.odm.connections.tenants import ALL, tenant_or_all
from mangonel.odm.errors import UnsupportedOption
from mangonel.odm.expressions.changes import Change
from mangonel.odm.expressions.expr import PLAIN, Where
from mangonel.odm.model.base import Base
from mangonel.odm.model.belongs_to import held
from mangonel.odm.model.convert import DELETED, NEW, PARTIAL
from mangonel.odm.model.fields import Index, field
from mangonel.odm.model.refs import fetch_flow, flat_ids
from mangonel.odm.query.query import EMPTY, Query
from mangonel.odm.query.single import LONG_WAY, single_by_id
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


# The flows that store documents; an audited model replaces them.
_FLOWS = SimpleNamespace(
    insert_flow=writes.insert_flow,
    save_flow=writes.save_flow,
    replace_flow=writes.replace_flow,
    update_flow=writes.update_flow,
    delete_flow=writes.delete_flow,
    insert_many_flow=bulk.insert_many_flow,
    save_all_flow=bulk.save_all_flow,
)


class Document(Base, DocumentTwins):
    """A document that is stored in a collection.

    Annotations of the class declare its fields. These attributes configure it:

    - `__collection__`: the collection's name; by default the class name in snake case.
    - `__connection__`: the alias of its connection; by default "default".
    - `__indexes__`: a list of `Index`.
    - `__search_indexes__`: a list of `SearchIndex`.
    - `__options__`: `write_concern`, `read_concern` and `read_preference` of its collection.
    - `__collection_options__`: options for the driver's `create_collection`, such as `capped`.
    - `__default_scope__`: a static method that takes a query and returns the one that `find()` starts from. Scopes of
      base classes apply too; None removes them.
    - `__tenant__ = "company"`: the field that tells the documents of tenants apart; see `tenant()`.
    - `__shard_key__ = {"tenant": 1}`: the fields of the shard key, with 1 or "hashed". They cannot change later.
    - `__view__ = (Order, pipeline)`: the model is a view, the result of a pipeline on another model. Read only.
    - `__root__ = True`: subclasses share the collection; the key `__tag__` tells them apart.
    - `__unknown__`: how keys without a field are treated: "keep", "ignore" or "forbid".
    - `__on_bad__ = "raw"`: load values of the wrong type unchanged instead of raising.
    - `__cast__ = True`: convert values, such as `age="3"`; or a set of "values", "decimal", "null" and "single", for
      all fields or by field, as `{"age": {"null"}}`.
    - `__tz_aware__ = False`: dates are naive, in UTC. By default they are time zone aware, and load as UTC.
    - `__computed__ = ("full_name",)`: properties, and methods without arguments, whose values pydantic and FastAPI add
      to responses.
    - `__input_exclude__ = ("role",)`: fields that `Input` and `Patch` leave out.
    - `__dynamic__ = True`: `extra` holds the keys without a field, and may be changed.

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
    __own_scope__: ClassVar[Any] = (
        None  # the scope of its own body; `model/scopes.py` adds those of the bases
    )
    __tenant__: ClassVar[str | None] = None
    __keeps_changes__: ClassVar[bool] = False
    # The flows that store its documents, and the recorder of its queries' writes.
    __store__: ClassVar[Any] = _FLOWS
    __recorder__: ClassVar[Any] = None
    __search_indexes__: ClassVar[list[SearchIndex]] = []
    __shard_key__: ClassVar[Mapping[str, int | str]] = {}
    __view__: ClassVar[tuple[Any, Iterable[Any]] | None] = None

    id: ObjectId = field(default_factory=ObjectId, key="_id")

    # Changed by mixins.

    @classmethod
    def __stamps__(cls) -> dict[tuple[str, bool], Callable[[], Any]]:
        """The keys that saves set by themselves, each with whether updates do so too, and a function for the value."""
        return {}

    def __stamp__(self, is_new: bool) -> None:
        """Set those keys."""

    @classmethod
    def __soft_delete__(cls) -> bool:
        return False

    @classmethod
    def __soft_delete_update__(cls) -> dict[str, Any]:
        return {}

    def __note_changes__(self) -> None:
        """Record the values about to be stored; after the save, `__keep_changes__` keeps them."""

    def __keep_changes__(self) -> None:
        return

    def __saved_changes__(self, *put_back: Any) -> Any:
        """Return the recorded values of saves, or restore values returned earlier."""

    @classmethod
    def __is_root_of_family__(cls) -> bool:
        return bool(cls.__dict__.get("__root__"))

    # The collection.

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
        return cls._bind(IS_ASYNC)

    # Queries.

    @classmethod
    def find(cls, *where: Where, on_invalid: Any = None) -> Query[Self]:
        """Return a query for the documents that meet all conditions. Nothing is sent until it is read.

        Args:
            where: conditions such as `User.age > 3`, or query documents.
            on_invalid: how to treat documents that do not fit the model: "raise", "skip", or a function, which is
                called with the ValidationError of each. The latter two decode documents completely.

        Example:
            >>> [user.name for user in User.find(User.age > 30).sort("-age").limit(10)]
            ['Ada']
        """
        if on_invalid is None and cls.__default_scope__ is None:
            if len(where) == 1 and type(where[0]) in PLAIN:
                # The same as below, without calling the constructor.
                made: Query[Self] = slots_like(EMPTY)
                made._model, made._where = cls, where
                return made
            return Query(cls, where)
        return Query(cls)._scoped().find(*where, on_invalid=on_invalid)

    @classmethod
    def unscoped(cls, *where: Where) -> Query[Self]:
        """Return a query as `find` does, without the default scope."""
        return Query(cls, where)

    @classmethod
    @terminal
    def get(cls, id: Any) -> Self:
        """Return the document with this id. Lists and embedded documents are decoded at once.

        Args:
            id: the id, or a value that converts to it, such as the text of an ObjectId.

        Raises:
            DocumentNotFound: no document has this id.
            ValidationError: a stored value does not fit its field.

        Example:
            >>> User.get(user.id).name
            'Ada'
        """
        found: Self = single_by_id(cls, id, IS_ASYNC, "one")
        return found if found is not LONG_WAY else Query(cls)._by_id(id)._single(IS_ASYNC, "one")

    @classmethod
    @terminal
    def get_or_none(cls, id: Any) -> Self | None:
        """Return the document with this id, or None.

        Args:
            id: the id.

        Raises:
            ValidationError: a stored value does not fit its field.

        Example:
            >>> User.get_or_none("nobody") is None
            True
        """
        found: Self | None = single_by_id(cls, id, IS_ASYNC, "first")
        return found if found is not LONG_WAY else Query(cls)._by_id(id)._single(IS_ASYNC, "first")

    @classmethod
    @terminal
    def get_many(cls, ids: Iterable[Any]) -> list[Self]:
        """Return the documents with these ids, in the given order. Missing documents are left out.

        Args:
            ids: any iterable of ids or references.

        Example:
            >>> [found.name for found in User.get_many([user.id])]
            ['Ada']
        """
        request = cls.find()._request("all", IS_ASYNC)
        return request.port.flow(_in_order_flow(request, list(expect("ids", ids, Iterable, "ids"))))

    @classmethod
    @terminal
    def estimated_count(cls) -> int:
        """Return the approximate size of the collection, from its metadata. Ignores scopes and families.

        Raises:
            UnsupportedOption: the model keeps tenants apart, but the metadata does not.

        Example:
            >>> User.estimated_count()
            2
        """
        if cls.__tenant__ is not None and tenant_or_all(cls) is not ALL:
            raise UnsupportedOption(
                f"estimated_count() cannot honour the tenants of {cls.__name__}: use find().count()"
            )
        return cls._bind(IS_ASYNC).estimated_document_count()

    # Storing.

    @terminal
    def insert(self, *, validate: bool = True, session: Any = None, write_concern: Any = None) -> Self:
        """Insert a new document.

        Args:
            validate: run the `validate` hooks.
            session: the driver's session; None: that of the context, if any.
            write_concern: the driver's WriteConcern; None: that of the model, the database or the client.

        Raises:
            DuplicateKeyError: its id or another unique value exists already. Nothing was stored.
            ValidationError: a value does not fit its field. Nothing was sent.
            DanglingReference: a reference with `on_delete="deny"` leads to nothing. The document was deleted again.

        Example:
            >>> Post(title="Tea").insert().title
            'Tea'
        """
        is_direct = session is None and write_concern is None and self.__store__ is _FLOWS
        if is_direct and _core.odm_flags(self) & NEW:
            made: Self | None = writes.inserted(self, IS_ASYNC, validate)
            if made is not None:
                return made
        place = place_of(self, IS_ASYNC, session, write_concern)
        return place.port.flow(self.__store__.insert_flow(self, place, validate))

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
        """Insert a new document, or send the smallest update with its changes. Without changes nothing is sent.

        Args:
            validate: run the `validate` hooks.
            cascade: save the loaded documents of references first.
            where: a condition that the stored document must meet.
            session: the driver's session; None: that of the context, if any.
            write_concern: the driver's WriteConcern; None: that of the model, the database or the client.

        Raises:
            StaleDocument: the stored document has another version, or does not meet `where`. Nothing was stored.
            DocumentNotFound: the document no longer exists.
            DuplicateKeyError: a unique value exists already. Nothing was stored.
            ValidationError: a value does not fit its field. Nothing was sent.
            DanglingReference: the target of a reference with `on_delete="deny"` is gone. A new document was deleted
                again; in an existing one, the reference was set back and is pending, and the other changes are stored.

        Example:
            >>> user.age += 1
            >>> user.save().age
            37
        """
        is_direct = session is None and write_concern is None and not cascade and self.__store__ is _FLOWS
        if is_direct and _core.odm_flags(self) & NEW:
            made: Self | None = writes.inserted(self, IS_ASYNC, validate, False, True, where)
            if made is not None:
                return made
        place = place_of(self, IS_ASYNC, session, write_concern)
        return place.port.flow(self.__store__.save_flow(self, place, validate, cascade, where))

    @terminal
    def replace(self, *, upsert: bool = False, session: Any = None, write_concern: Any = None) -> Self:
        """Replace the stored document by this one, including unknown keys.

        Args:
            upsert: True: insert the document if none has its id.
            session: the driver's session; None: that of the context, if any.
            write_concern: the driver's WriteConcern; None: that of the model, the database or the client.

        Raises:
            DocumentNotFound: no document has its id, and `upsert` is False.
            ValueError: only some fields of the document were loaded.

        Example:
            >>> user.status = "gone"
            >>> user.replace().status
            'gone'
        """
        place = place_of(self, IS_ASYNC, session, write_concern)
        return place.port.flow(self.__store__.replace_flow(self, place, upsert))

    @terminal
    def update(self, *changes: Change, session: Any = None, write_concern: Any = None) -> Self:
        """Send changes such as `inc(User.age)` for this document, and take over the resulting values.

        Args:
            changes: the results of `inc`, `set_`, `push` and so on, or update documents.
            session: the driver's session; None: that of the context, if any.
            write_concern: the driver's WriteConcern; None: that of the model, the database or the client.

        Raises:
            DocumentNotFound: the document no longer exists.
            StaleDocument: it has unsaved changes, and another writer has saved it since it was loaded.
            ValueError: a changed field has unsaved changes.

        Example:
            >>> user.update(inc(User.age), push(User.tags, "new")).tags
            ['admin', 'new']
        """
        place = place_of(self, IS_ASYNC, session, write_concern)
        return place.port.flow(self.__store__.update_flow(self, place, changes))

    @terminal
    def delete(self, *, where: Where | None = None, session: Any = None, write_concern: Any = None) -> None:
        """Delete the document, following the delete rules of references to it.

        Args:
            where: a condition that the stored document must meet.
            session: the driver's session; None: that of the context, if any.
            write_concern: the driver's WriteConcern; None: that of the model, the database or the client.

        Raises:
            DeleteDenied: a rule forbids it. Nothing was deleted, or it was stored again.
            StaleDocument: the stored document has another version, or does not meet `where`. Nothing was deleted or
                changed by a rule.
            ParallelSaveError: it is being inserted by another task or thread.

        Example:
            >>> post.delete()
            >>> Post.get_or_none(post.id) is None
            True
        """
        place = place_of(self, IS_ASYNC, session, write_concern)
        done: None = place.port.flow(self.__store__.delete_flow(self, place, where))
        return done

    @terminal
    def reload(self, *, keep_changes: bool = False, session: Any = None) -> Self:
        """Load the document again. Unsaved changes are lost.

        Args:
            keep_changes: True: fields with unsaved changes keep them; only the others are loaded. Elements appended to
                a list are appended to the stored list; a set, dict or `Refs` is the stored one with the same additions
                and removals.
            session: the driver's session; None: that of the context, if any.

        Raises:
            DocumentNotFound: the document no longer exists.
            ParallelSaveError: a save of it is under way, or another task's transaction has saved it and has not ended.
            StaleDocument: `keep_changes`, after a save of unknown outcome: an embedded document appended by it may be
                another element of the stored list. Nothing was loaded; call `reload()`, which discards the changes.

        Example:
            >>> user.age = 99
            >>> user.reload().age
            36
        """
        place = place_of(self, IS_ASYNC, session)
        return place.port.flow(writes.reload_flow(self, place, keep_changes))

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
        """Insert new documents in as few commands as possible; return their number.

        Args:
            documents: new documents.
            ordered: stop at the first failure. False: try all documents.
            session: the driver's session; None: that of the context, if any.
            write_concern: the driver's WriteConcern; None: that of the model, the database or the client.

        Raises:
            BulkWriteError: some were not stored, or may not be: `not_stored` lists them. The others count as saved.

        Example:
            >>> Post.insert_many([Post(title="Tea"), Post(title="Coffee")])
            2
        """
        given = list(expect("documents", documents, Iterable, "documents"))
        place = _common_place(cls, given, IS_ASYNC, session, write_concern)
        return place.port.flow(cls.__store__.insert_many_flow(place, given, ordered))

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
        """Save documents in one bulk write of the smallest updates; return how many had changes.

        Args:
            documents: new and changed documents; unchanged ones are skipped.
            ordered: stop at the first failure. False: try all documents.
            session: the driver's session; None: that of the context, if any.
            write_concern: the driver's WriteConcern; None: that of the model, the database or the client.

        Raises:
            StaleDocument: a stored document has another version; with `ordered=False` the others are stored.
            BulkWriteError: some were not stored; `not_stored` of this and of the driver's other errors lists those that
                were not, or may not be. The others count as saved.
            DanglingReference: references with `on_delete="deny"` lead to nothing; the other documents are stored.

        Example:
            >>> user.age += 1
            >>> User.save_all([user])
            1
        """
        given = list(expect("documents", documents, Iterable, "documents"))
        place = _common_place(cls, given, IS_ASYNC, session, write_concern)
        return place.port.flow(cls.__store__.save_all_flow(place, given, ordered))

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
        """Run a pipeline; return dicts, or instances of `into`.

        Args:
            pipeline: the stages.
            into: a model, a dataclass, a TypedDict or another shape.
            options: options of the driver's `aggregate`.

        Raises:
            OperationFailure: the server refused.

        Example:
            >>> User.aggregate([{"$group": {"_id": None, "age": {"$sum": "$age"}}}])
            [{'_id': None, 'age': 60}]
        """
        query = cls.find()
        stages = list(expect("pipeline", pipeline, Iterable, "stages"))
        return query._run(IS_ASYNC, "aggregate", query._aggregate_flow, stages, into, options)

    @classmethod
    def watch(
        cls,
        pipeline: Iterable[Any] = (),
        *,
        full_document: str | None = "updateLookup",
        **options: Unpack[WatchOptions],
    ) -> Changes[Self]:
        """Return a change stream whose events hold instances, for either face. It opens when it is first read.

        Args:
            pipeline: stages that filter the changes.
            full_document: whether update events include the document; as for the driver's `watch`. None: no.
            options: options of the driver's `watch`, such as `resume_after` and `max_await_time_ms`.

        Example:
            >>> changes = Order.watch([{"$match": {"operationType": "insert"}}], max_await_time_ms=500)
        """
        return cls.unscoped().watch(pipeline, full_document=full_document, **options)

    # Indexes and the collection.

    @classmethod
    @terminal
    def sync_indexes(cls, *, plan: bool = False, drop: bool = False) -> IndexPlan:
        """Create missing indexes and rebuild those that differ from their declaration.

        Args:
            plan: only return the plan; change nothing.
            drop: also drop indexes that are not declared.

        Returns:
            An `IndexPlan`: `create`, `rebuild`, `drop`, `keep`.

        Raises:
            OperationFailure: the server refused, for example a unique index over duplicate values.

        Example:
            >>> Cafe.sync_indexes(plan=True).create
            ['loc_2dsphere']
        """
        collection = cls._bind(IS_ASYNC)
        return collection._port.flow(sync_indexes_flow(cls, collection, plan, drop))

    @classmethod
    def search_indexes(cls) -> dict[str, dict[str, Any]]:
        """Return the declared search and vector indexes by name, in the form of the search service."""
        return declared_search_indexes(cls)

    @classmethod
    @terminal
    def sync_search_indexes(
        cls, *, plan: bool = False, drop: bool = False, wait_s: float | None = None
    ) -> IndexPlan:
        """Create missing search and vector indexes, and change those that differ from their declaration.

        Args:
            plan: only return the plan; change nothing.
            drop: also drop search indexes that are not declared.
            wait_s: seconds to wait until the indexes are built. None: do not wait.

        Raises:
            OperationFailure: the deployment has no search service, or refused for another reason.
            OdmError: they were not built within `wait_s`.

        Example:
            >>> User.sync_search_indexes(plan=True)
            Traceback (most recent call last):
            OperationFailure: ...
        """
        collection = cls._bind(IS_ASYNC)
        return collection._port.flow(sync_search_flow(cls, collection, plan, drop, wait_s))

    @classmethod
    @terminal
    def shard_collection(cls) -> None:
        """Shard the collection of a sharded cluster by `__shard_key__`.

        Raises:
            ValueError: the model has no shard key.
            OperationFailure: the deployment is not a sharded cluster, or refused for another reason.

        Example:
            >>> User.shard_collection()
            Traceback (most recent call last):
            ValueError: expected a __shard_key__ in User, got none
        """
        collection = cls._bind(IS_ASYNC)
        return collection._port.flow(shard_flow(cls, collection))

    @classmethod
    def json_schema(cls) -> dict[str, Any]:
        """Return the model as the server's `$jsonSchema`."""
        return bson_schema(cls)

    @classmethod
    @terminal
    def create_collection(cls, *, validate: bool = False) -> None:
        """Create the collection with its `__collection_options__`, such as capped or timeseries.

        Args:
            validate: make the server reject documents that do not fit the model.

        Raises:
            CollectionInvalid: the collection exists already.

        Example:
            >>> Cafe.create_collection(validate=True)
        """
        collection = cls._bind(IS_ASYNC)
        return collection._port.flow(create_collection_flow(cls, collection, validate))

    # State.

    @property
    def is_new(self) -> bool:
        """Whether the document was never stored."""
        return bool(_core.odm_flags(self) & NEW)

    @property
    def is_partial(self) -> bool:
        """Whether only some of its fields were loaded."""
        return bool(_core.odm_flags(self) & PARTIAL)

    @property
    def is_deleted(self) -> bool:
        """Whether the document was deleted through this instance."""
        return bool(_core.odm_flags(self) & DELETED)

    def changes(self) -> dict[str, tuple[Any, Any]]:
        """Return the fields that `save()` would send, each with its old and its new value."""
        former = _core.odm_changes(self)
        return {name: (old, held(self, name)) for name, old in former.items()}

    @property
    def is_changed(self) -> bool:
        """Whether `save()` would send anything."""
        return self.is_new or bool(_core.odm_changes(self))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Document) or self.__collection_name__() != other.__collection_name__():
            return NotImplemented
        # A document without an id equals no other.
        return self is other or (self.id is not None and bool(self.id == other.id))

    def __hash__(self) -> int:  # type: ignore[override]
        id: Any = self.id
        # An id with several fields is an embedded document, which has no hash.
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
    """Return the common place of documents.

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
