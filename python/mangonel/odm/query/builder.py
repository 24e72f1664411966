"""Builds queries: conditions, order, limits, fields and result form. Immutable; sends nothing."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any, Generic, Self, TypeVar

from mangonel import timeout
from mangonel._arguments import expect
from mangonel._core import slots_like
from mangonel.odm.connections.connection import Connection, connection
from mangonel.odm.errors import UnsupportedOption
from mangonel.odm.expressions.expr import PLAIN, JoinedExpr, Where, part_of, query_of
from mangonel.odm.expressions.keys import key_of, order_of
from mangonel.odm.expressions.paths import Path
from mangonel.odm.expressions.through import Through, field_of, joined_order
from mangonel.odm.expressions.values import dump
from mangonel.odm.model.shapes import keys_of
from mangonel.odm.query.include import Node, looked_up, merged, nodes_of
from mangonel.odm.query.options import FindOptions
from mangonel.odm.query.request import TERMINALS, Request
from mangonel.odm.query.single import STORED_AS_THEY_ARE
from mangonel.odm.query.tenants import narrowed

if TYPE_CHECKING:
    from typing import Unpack

    from mangonel._shared.face_result import FaceResult

__all__ = ["QueryBuilder"]

T = TypeVar("T")
S = TypeVar("S")


class QueryBuilder(Generic[T]):
    """The building methods of a query. Each returns a new query."""

    __slots__ = (
        "_connection",
        "_includes",
        "_is_none",
        "_is_plain",
        "_joins",
        "_lookups",
        "_model",
        "_on_invalid",
        "_options",
        "_seconds",
        "_session",
        "_shape",
        "_where",
        "_wish",
    )

    def __init__(self, model: Any, where: tuple[Where, ...] = ()) -> None:
        joins: tuple[Any, ...] = ()
        for condition in where:
            if type(condition) not in PLAIN:
                if type(condition) is JoinedExpr:
                    joins = (*joins, condition)
                else:
                    part_of(condition)
        self._model = model
        self._where = where
        # Conditions and orders on documents of references: a `JoinedExpr` or a `Through` each.
        self._joins = joins
        # Arguments of the driver's find().
        self._options: dict[str, Any] = {}
        # The form of results: lazy, only, ignores.
        self._wish: dict[str, Any] = {}
        self._shape: Any = None
        self._includes: tuple[Any, ...] = ()
        self._lookups: tuple[Any, ...] = ()
        self._connection: Connection | None = None
        self._session: Any = None
        self._seconds: float | None = None
        self._on_invalid: Any = "raise"
        self._is_none = False
        # Only conditions are set.
        self._is_plain = True
        if joins:
            self._where = tuple(part for part in where if type(part) is not JoinedExpr)
            self._is_plain = False

    def _copy(self) -> Self:
        made = slots_like(self)
        made._is_plain = False
        return made

    def _with(self, **options: Any) -> Self:
        made = self._copy()
        made._options = {**self._options, **options}
        return made

    def _wishing(self, **wish: Any) -> Self:
        made = self._copy()
        made._wish = {**self._wish, **wish}
        return made

    def _bare(self, **options: Any) -> Self:
        """Return a query for the same documents without `as_()`, `include()`, `lookup()` and `on_invalid`."""
        made = self._with(**options)
        made._shape, made._includes, made._lookups, made._on_invalid = None, (), (), "raise"
        return made

    def _from(self, origin: Any) -> Self:
        """Return the query on a document's connection, to follow its references. None: on the context's connection."""
        if origin is None or origin.alias != self._model.__connection__:
            return self
        made = self._copy()
        made._connection = origin
        return made

    def _by_id(self, id: Any) -> Self:
        """Add the condition for a document's id to a query without conditions."""
        model = self._model
        field, kind = model.__plan__.id, type(id)
        stored = id if kind is field.type and kind in STORED_AS_THEY_ARE else dump(model, field, id)
        if model.__default_scope__ is None:
            self._where = ({"_id": stored},)
            return self
        query = self._scoped().find({"_id": stored})
        return query if query._is_plain else query.eager()

    def _scoped(self) -> Self:
        scope = self._model.__default_scope__
        if scope is None:
            return self
        made: Self = scope(self)
        if not isinstance(made, QueryBuilder):
            raise TypeError(
                f"expected {self._model.__name__}.__default_scope__ to return a query, got {type(made).__name__}"
            )
        return made

    # Building.

    def find(self, *where: Where, on_invalid: Any = None) -> Self:
        """Add conditions, all of which documents must meet.

        Args:
            where: conditions, or query documents.
            on_invalid: what to do with documents that do not fit the model: "raise", "skip", or a function called with
                the ValidationError of each; the latter two decode documents completely, unless `lazy()` was called.
                None: no change; the default is "raise".

        Example:
            >>> User.find(User.age > 18).find(User.name == "Ada").count()
            1
        """
        joins = [part for part in where if type(part) is JoinedExpr]
        if joins:
            where = tuple(part for part in where if type(part) is not JoinedExpr)
        for condition in where:
            part_of(condition)
        made = self._copy()
        made._where = (*self._where, *where)
        made._joins = (*self._joins, *joins)
        made._is_plain = self._is_plain and on_invalid is None and not joins
        if on_invalid is not None:
            if on_invalid not in ("raise", "skip") and not callable(on_invalid):
                raise ValueError(f'expected "raise", "skip" or a function for on_invalid, got {on_invalid!r}')
            made._on_invalid = on_invalid
        return made

    def merge(self, *others: QueryBuilder[T]) -> Self:
        """Combine this query with others of the model, such as named scopes. The last order and limit win.

        Args:
            others: queries, such as `Post.published()`.

        Raises:
            TypeError: one belongs to another model.

        Example:
            >>> User.find(User.age > 18).merge(User.find(User.name == "Ada").limit(1)).count()
            1
        """
        made = self._copy()
        for other in others:
            if other._model is not self._model:
                raise TypeError(
                    f"expected a query of {self._model.__name__}, got one of {other._model.__name__}"
                )
            scoped = set(map(id, self._where))
            made._where = (*made._where, *(part for part in other._where if id(part) not in scoped))
            made._options = {**made._options, **other._options}
            lists: dict[str, Any] = {
                name: [*made._wish.get(name, ()), *other._wish[name]]
                for name in ("chosen", "left_out")
                if name in other._wish
            }
            made._wish = {**made._wish, **other._wish, **lists}
            made._includes = merged(made._includes, other._includes)
            made._joins = (*made._joins, *(part for part in other._joins if part not in made._joins))
            made._lookups = looked_up(self._model, made._lookups, other._lookups)
            made._is_none = made._is_none or other._is_none
            made._connection = other._connection or made._connection
            made._session = other._session or made._session
            made._seconds = made._seconds if other._seconds is None else other._seconds
            made._shape = other._shape or made._shape
            made._on_invalid = made._on_invalid if other._on_invalid == "raise" else other._on_invalid
        made._project()
        return made

    def sort(self, *orders: Any) -> Self:
        """Sort by fields: `"-age"`, `User.age`, `desc(User.age)`, `Post.author.name`; replaces an earlier order.

        Args:
            orders: the most significant one first.

        Example:
            >>> [found.name for found in User.find().sort("-age", User.name)]
            ['Ada', 'Eve']
        """
        through = [path for path in map(field_of, orders) if isinstance(path, Through)]
        if not through:
            return self._with(sort=order_of(orders, self._model) or None)
        made = self._with(sort=order_of(map(joined_order, orders), self._model))
        made._joins = (*self._joins, *through)
        return made

    def limit(self, limit: int | None) -> Self:
        """Return at most this many documents. A limit of 0 matches none, like `[:0]` and unlike the driver's.

        Args:
            limit: how many. None: no limit.

        Raises:
            ValueError: it is negative.

        Example:
            >>> len(User.find().limit(1).all())
            1
            >>> User.find().limit(0).delete()
            0
        """
        if limit is None:
            return self._with(limit=None)
        return self._with(limit=limit) if _count(limit, "limit") else self.none()

    def skip(self, skip: int) -> Self:
        """Skip the first documents.

        Args:
            skip: the number of documents.

        Raises:
            ValueError: it is negative.

        Example:
            >>> [found.name for found in User.find().sort("age").skip(1)]
            ['Ada']
        """
        return self._with(skip=_count(skip, "skip"))

    def __getitem__(self, part: slice) -> Self:
        """Return a slice: `query[10:20]` is `skip(10).limit(10)`; slicing a limited query takes a part of it."""
        if (
            not isinstance(part, slice)
            or part.step is not None
            or (part.start or 0) < 0
            or (part.stop or 0) < 0
        ):
            raise TypeError("expected a slice without step and from 0 on; use nth(), skip() and limit()")
        start = part.start or 0
        limit: int | None = self._options.get("limit") or None
        size = None if part.stop is None else part.stop - start
        if limit is not None:
            size = limit - start if size is None else min(size, limit - start)
        if size is not None and size <= 0:
            return self.none()
        return self._with(skip=(self._options.get("skip") or 0) + start or None, limit=size)

    def none(self) -> Self:
        """Match nothing, and send nothing."""
        made = self._copy()
        made._is_none = True
        return made

    def only(self, *fields: Any) -> Self:
        """Load only these fields and the id. Reading another raises NotLoaded; saving stays safe.

        Further calls add fields; `exclude()` removes some again; `include()` and `lookup()` add the fields they need.

        Args:
            fields: attributes of the model.

        Example:
            >>> User.find(User.age > 30).only(User.name).one().name
            'Ada'
        """
        keys = [key_of(field, self._model) for field in fields]
        made = self._wishing(chosen=[*self._wish.get("chosen", ()), *keys])
        made._project()
        return made

    def exclude(self, *fields: Any) -> Self:
        """Load all fields except these. A second call excludes more.

        Args:
            fields: attributes of the model.

        Example:
            >>> User.find(User.age > 30).exclude(User.tags).one().name
            'Ada'
        """
        keys = [key_of(field, self._model) for field in fields]
        made = self._wishing(left_out=[*self._wish.get("left_out", ()), *keys])
        made._project()
        return made

    def _project(self) -> None:
        """Compute the keys to read: those of `only()`, `exclude()` and `as_()`, and those that references need.

        Raises:
            UnsupportedOption: they contradict each other.
        """
        chosen, left_out = self._wish.get("chosen"), self._wish.get("left_out", ())
        shape_keys = None if self._shape is None else keys_of(self._shape)
        if chosen is None and not left_out and shape_keys is None:
            return
        if shape_keys is not None:
            if chosen is not None or left_out:
                raise UnsupportedOption(
                    f"as_() cannot honour only() or exclude(): {self._shape.__name__} says which fields are read; "
                    "leave them out"
                )
            keys = [*shape_keys] if "_id" in shape_keys else [*shape_keys, "_id"]
            self._options = {**self._options, "projection": {key: int(key in shape_keys) for key in keys}}
            return
        fields = self._model.__plan__.fields.values()
        needed = {self._first_key(step) for step in (*self._includes, *self._lookups)}
        for key in left_out:
            if key in needed:
                raise UnsupportedOption(
                    f"include() cannot honour exclude() of {key!r}: leave one of them out"
                )
        if chosen is None:
            self._wish = {**self._wish, "only": [field.key for field in fields if field.key not in left_out]}
            self._options = {**self._options, "projection": dict.fromkeys(left_out, 0)}
            return
        for key in chosen:
            for other in left_out:
                if _is_below(other, key):
                    raise UnsupportedOption(
                        f"only() of {key!r} cannot honour exclude() of {other!r}: name the parts that are wanted"
                    )
        wanted = [
            key for key in chosen if not any(key == other or _is_below(key, other) for other in left_out)
        ]
        wanted += needed
        # The server accepts no path together with a prefix of it.
        wanted = [key for key in dict.fromkeys(wanted) if not any(_is_below(key, other) for other in wanted)]
        self._wish = {**self._wish, "only": wanted}
        self._options = {**self._options, "projection": dict.fromkeys(wanted or ["_id"], 1)}

    def _first_key(self, step: Any) -> str:
        """Return the key of the model's own field that leads to a reference."""
        return step.key if isinstance(step, Node) else key_of(step, self._model).partition(".")[0]

    def lazy(self) -> Self:
        """Leave containers and embedded documents undecoded until they are read."""
        return self._wishing(lazy=True)

    def eager(self) -> Self:
        """Decode containers and embedded documents at once, which also checks their types at once."""
        return self._wishing(lazy=False)

    def include(self, *fields: Any) -> Self:
        """Fetch referenced documents too, with one more command for each reference and level.

        Afterwards `post.author.value` and `user.posts.values` send nothing. `to_dict()` and responses show documents in
        place of ids. A reference without a document reports why.

        Args:
            fields: references and inverses such as `Post.author` and `User.posts`; `Post.author.company` and
                `(Post.author, Author.company)` lead from document to document. `related(User.posts, query)` gives one
                its own conditions, order and limits.

        Raises:
            TypeError: one is no reference.

        Example:
            >>> [found.author.value.name for found in Post.find().include(Post.author)]
            ['Ada']
            >>> [post.title for post in User.find().include(User.posts).first().posts.values]
            ['Bread']
        """
        made = self._copy()
        made._includes = merged(self._includes, [nodes_of(self._model, field) for field in fields])
        made._project()
        return made

    def lookup(self, *fields: Any) -> Self:
        """Fetch referenced documents in the same command, with `$lookup`; `include()` sends one more for each field.

        Args:
            fields: as for `include()`. Their documents must be in the same database.

        Raises:
            TypeError: one is no reference.
            UnsupportedOption: one command cannot honour it, such as a limit of a list behind another reference. Raised
                when the query is sent.

        Example:
            >>> [found.author.value.name for found in Post.find().lookup(Post.author)]
            ['Ada']
        """
        made = self._copy()
        made._lookups = (*self._lookups, *fields)
        for field in made._lookups:
            if type(field) is not Path:
                made._lookups = looked_up(self._model, self._lookups, fields)
                break
        if made._wish:
            made._project()
        return made

    def using(self, other: Connection | str) -> Self:
        """Use another connection, or another database of the same deployment.

        Args:
            other: a connection, or the name of a database.

        Example:
            >>> User.find().using("archive").count()
            0
        """
        made = self._copy()
        made._connection = (
            connection(self._model.__connection__).sibling(other) if isinstance(other, str) else other
        )
        return made

    def session(self, session: Any) -> Self:
        """Use a session of the driver, from the same client. By default, the session of the context is used, if any.

        Args:
            session: a ClientSession or an AsyncClientSession, or None.

        Example:
            >>> with db.client.start_session() as session:
            ...     User.find().session(session).count()
            2
        """
        made = self._copy()
        made._session = session
        return made

    def timeout(self, seconds: float | None) -> Self:
        """Limit the time of the whole operation, including retries, as `mangonel.timeout` does.

        While iterating, the limit applies to each reply, since the program's own work comes in between.

        Args:
            seconds: the limit. None: no separate limit.

        Example:
            >>> User.find().timeout(2.5).count()
            2
        """
        made = self._copy()
        made._seconds = seconds
        return made

    def hint(self, index: Any) -> Self:
        """Use this index, by name or keys.

        Args:
            index: name of the index, or its keys.

        Example:
            >>> User.find(User.age > 30).hint("_id_").one().name
            'Ada'
        """
        return self._with(hint=index)

    def comment(self, comment: Any) -> Self:
        """Show a comment in the server's logs and profile.

        Args:
            comment: text, or any value that BSON can store.

        Example:
            >>> User.find(User.age > 30).comment("report").one().name
            'Ada'
        """
        return self._with(comment=comment)

    def collation(self, collation: Any) -> Self:
        """Compare strings by these rules.

        Args:
            collation: a `Collation`, or a document of its options.

        Example:
            >>> User.find(User.name == "ADA").collation({"locale": "en", "strength": 2}).one().name
            'Ada'
        """
        return self._with(collation=collation)

    def max_time_ms(self, max_time_ms: int) -> Self:
        """Limit the time that the server may spend on each command.

        Args:
            max_time_ms: milliseconds for each command.

        Example:
            >>> len(User.find().max_time_ms(10_000).all())
            2
        """
        return self._with(max_time_ms=max_time_ms)

    def batch_size(self, batch_size: int) -> Self:
        """Set the number of documents per reply.

        Args:
            batch_size: the number of documents.

        Example:
            >>> len(User.find().batch_size(500).all())
            2
        """
        return self._with(batch_size=batch_size)

    def allow_disk_use(self, allow: bool = True) -> Self:
        """Let a large sort use the disk.

        Args:
            allow: False: a sort that needs more than 100 MiB fails.

        Example:
            >>> len(User.find().sort("age").allow_disk_use().all())
            2
        """
        return self._with(allow_disk_use=allow)

    def options(self, **options: Unpack[FindOptions]) -> Self:
        """Set other options of the driver's `find`, or `read_preference`, `read_concern` and `write_concern`.

        Args:
            options: options by the driver's names.

        Raises:
            TypeError: the option does not exist.

        Example:
            >>> len(User.find().options(read_preference=ReadPreference.NEAREST).all())
            2
        """
        unknown = sorted(options.keys() - FindOptions.__annotations__.keys())
        if unknown:
            raise TypeError(f"expected options of the driver's find, got {', '.join(map(repr, unknown))}")
        given: dict[str, Any] = {**options}
        limited = self.limit(given.pop("limit")) if "limit" in given else self
        return limited._with(**given)

    def text_score(self, name: str = "score") -> Self:
        """Sort by the score of a text search. `dicts()`, and shapes with a field of this name, include the score.

        Args:
            name: key to store the score under.

        Example:
            >>> User.find(text("bread")).text_score()
            Query(User, {'$text': {'$search': 'bread'}})
        """
        expect("name", name, str, "a key")
        return self._with(sort={name: {"$meta": "textScore"}})._wishing(score=name)

    # Methods below need the database.

    @property
    def query(self) -> dict[str, Any]:
        """The query document to send; for a model with tenants, limited to the tenant of this context.

        Raises:
            NoTenant: the model keeps tenants apart, and none is set.
        """
        return self._narrowed(False)

    def _narrowed(self, is_exact: bool) -> dict[str, Any]:
        """Return the query document for the tenant of this context; `is_exact`: exactly, even under a collation."""
        query = self._conditions()
        return query if self._model.__tenant__ is None else narrowed(self._model, query, is_exact)

    def _conditions(self) -> dict[str, Any]:
        """Return the query document of the program's conditions, limited to the classes of this model."""
        query = query_of(*self._where)
        tag = self._model.__tag_value__
        if tag is not None and not self._model.__is_root_of_family__():
            tags = [model.__tag_value__ for model in self._model.__tagged__()]
            query = query_of({self._model.__tag__: {"$in": tags} if len(tags) > 1 else tags[0]}, query)
        return query

    def _request(self, terminal: str, is_async: bool) -> Request:
        """Return the request of a terminal operation: the only way from a query to the driver."""
        return Request(self, terminal, is_async)

    def _run(
        self, is_async: bool, terminal: str, flow: Callable[..., Coroutine[Any, Any, S]], *arguments: Any
    ) -> FaceResult[S]:
        """Run the flow of a terminal operation."""
        recorder = self._model.__recorder__
        if recorder is not None and TERMINALS[terminal].is_write:
            return self._run_request(Request(self, terminal, is_async), recorder.query_flow, flow, *arguments)
        return self._run_request(Request(self, terminal, is_async), flow, *arguments)

    def _run_request(
        self, request: Request, flow: Callable[..., Coroutine[Any, Any, S]], *arguments: Any
    ) -> FaceResult[S]:
        if self._seconds is None:
            return request.port.flow(flow(request, *arguments))
        return request.port.flow(limited_flow(self._seconds, flow, request, *arguments))

    def _only(self) -> list[int] | None:
        keys = self._wish.get("only")
        if keys is None:
            return None
        first = {key.partition(".")[0] for key in keys}
        return [
            index for index, field in enumerate(self._model.__plan__.fields.values()) if field.key in first
        ]


async def limited_flow(
    seconds: float, terminal_flow: Callable[..., Coroutine[Any, Any, S]], *arguments: Any
) -> S:
    """Run the flow of a terminal operation within a time limit."""
    with timeout(seconds):
        return await terminal_flow(*arguments)


def _is_below(key: str, other: str) -> bool:
    """Whether a path is another one or leads below it."""
    return key.startswith(other + ".")


def _count(number: int, name: str) -> int:
    expect(name, number, int, "an int")
    if number < 0:
        raise ValueError(f"expected a {name} from 0 on, got {number}")
    return number
