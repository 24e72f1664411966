"""The one path from a query to the driver: which options each terminal operation honours, and which it refuses.

A query collects options; a terminal operation (`count()`, `update()`, iterating, …) honours some of them, listed in
`TERMINALS`. Its flow receives only a `Request`: the collection of the query's connection, the filter, and the keywords
of the driver's method, including the session. An option that an operation cannot honour raises an error that names
both; an option that cannot change its result (an order, for a count) is ignored.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from mangonel import _core
from mangonel.bson import decode
from mangonel.bson.errors import InvalidBSON
from mangonel.errors import ProtocolError
from mangonel.odm.connections.connection import connection
from mangonel.odm.connections.context import current_sessions
from mangonel.odm.connections.identity import current_map
from mangonel.odm.connections.place import concern_in_transaction
from mangonel.odm.errors import UnsupportedOption, ValidationError
from mangonel.odm.expressions.expr import Expr
from mangonel.odm.model.codec import raw_collection
from mangonel.odm.model.invalid import located, undecodable
from mangonel.odm.model.shapes import reader

if TYPE_CHECKING:
    from mangonel._faces.port import Port

# Options of a query by the name in the driver's `find`, and how a program sets each.
ASKED_BY = {
    "sort": "sort()",
    "limit": "limit()",
    "skip": "skip()",
    "projection": "only(), exclude() or as_()",
    "hint": "hint()",
    "comment": "comment()",
    "collation": "collation()",
    "max_time_ms": "max_time_ms()",
    "batch_size": "batch_size()",
    "allow_disk_use": "allow_disk_use()",
    "let": "options(let=…)",
    "read_preference": "options(read_preference=…)",
    "read_concern": "options(read_concern=…)",
    "write_concern": "options(write_concern=…)",
    "where": "find()",
    "include": "include()",
    "lookup": "lookup()",
    "shape": "as_()",
    "session": "session()",
    "on_invalid": "find(on_invalid=…)",
    "joins": "conditions or an order on documents of references",
}
# Settings of the collection, not keywords of its methods.
SETTINGS = ("read_preference", "read_concern", "write_concern")
# Settings for making documents; they do not affect an operation that returns none.
FORM = (
    "projection",
    "include",
    "lookup",
    "shape",
    "on_invalid",
    "batch_size",
    "sort",
    "allow_disk_use",
    "joins",
)


class Terminal:
    """The options that one operation honours.

    Attributes:
        name: name of the operation for messages.
        passes: by option, the keyword of the driver's method.
        takes: options that its flow honours itself.
        is_write: whether read settings would have no effect.
        is_find: whether any other option of the driver's `find` is passed on.
        hands_out: whether a limit counts the documents that it returns, not those that do not fit the model.
        most: how many documents it reads; 0 for all.
    """

    __slots__ = ("hands_out", "is_find", "is_write", "most", "name", "passes", "takes")

    def __init__(
        self,
        name: str,
        passes: Mapping[str, str],
        takes: tuple[str, ...] = (),
        *,
        is_write: bool = False,
        is_find: bool = False,
        hands_out: bool = False,
        most: int = 0,
    ) -> None:
        self.name = name
        self.passes = dict(passes)
        self.takes = frozenset((*takes, "write_concern", "session", *(() if is_write else SETTINGS)))
        self.is_write = is_write
        self.is_find = is_find
        self.most: int = most
        self.hands_out = hands_out


def _same(*names: str) -> dict[str, str]:
    return {name: name for name in names}


_FIND = _same(
    *("sort", "limit", "skip", "projection", "hint", "comment", "collation", "max_time_ms", "batch_size"),
    *("let", "allow_disk_use"),
)
_COMMAND = _same("hint", "comment", "collation") | {"max_time_ms": "maxTimeMS"}
_AGGREGATE = _COMMAND | _same("let") | {"batch_size": "batchSize", "allow_disk_use": "allowDiskUse"}
_WRITE = _same("hint", "comment", "collation", "let")
_ONE = _COMMAND | _same("let", "sort", "projection")

TERMINALS: dict[str, Terminal] = {
    terminal.name: terminal
    for terminal in (
        *(
            Terminal(
                name,
                _FIND,
                ("include", "joins", "lookup", "shape", "on_invalid"),
                is_find=True,
                hands_out=True,
                most=most,
            )
            for name, most in (("iterate", 0), ("all", 0), ("first", 1), ("last", 0), ("nth", 1), ("one", 2))
        ),
        # It also counts, and a count supports no other options.
        Terminal("paginate", _FIND, ("include", "joins", "shape", "on_invalid")),
        # A page sets its own window, and its last document must have the keys of the sort.
        Terminal(
            "page",
            {name: name for name in _FIND if name not in ("limit", "skip")},
            ("include", "on_invalid"),
            is_find=True,
        ),
        *(Terminal(name, _FIND, ("joins",), is_find=True) for name in ("dicts", "values")),
        Terminal("json", _FIND, ("include", "joins", "lookup"), is_find=True),
        *(Terminal(name, _FIND, is_find=True) for name in ("raw", "to_arrow", "iter_arrow")),
        # A lookup sends a pipeline, and this would explain a find.
        Terminal("explain", _FIND, ("include", "shape", "on_invalid"), is_find=True),
        Terminal("exists", _FIND, FORM, is_find=True),
        Terminal("is_empty", _FIND, FORM, is_find=True),
        Terminal("count", _COMMAND | _same("limit", "skip", "let"), FORM),
        Terminal("distinct", _COMMAND, (*FORM, "limit", "skip", "hint")),
        Terminal("aggregate", _AGGREGATE, ("joins", "sort", "limit", "skip", "projection")),
        *(Terminal(name, _AGGREGATE, (*FORM, "limit", "skip")) for name in ("sum", "avg", "min", "max")),
        *(Terminal(name, _WRITE, (*FORM, "limit", "skip"), is_write=True) for name in ("update", "delete")),
        *(
            Terminal(name, _ONE, ("include", "shape", "limit", "batch_size", "allow_disk_use"), is_write=True)
            for name in ("find_and_update", "find_and_replace", "find_and_delete", "upsert", "get_or_create")
        ),
        Terminal("watch", _same("comment", "collation", "batch_size")),
    )
}


class Request:
    """The input of a terminal's flow.

    Args:
        query: the program's query.
        terminal: a key of `TERMINALS`.
        is_async: whether the asyncio face called.
        beside: a request whose connection and collection are used; None: the query's own.
    """

    __slots__ = (
        "collection",
        "connection",
        "filter",
        "is_lazy",
        "keywords",
        "left",
        "port",
        "query",
        "terminal",
    )
    connection: Any
    collection: Any

    def __init__(self, query: Any, terminal: str, is_async: bool, beside: Request | None = None) -> None:
        self.query = query
        self.terminal = wanted = TERMINALS[terminal]
        model, options = query._model, query._options
        if beside is not None:
            chosen, collection = beside.connection, beside.collection
        else:
            chosen = query._connection
            if chosen is None:
                chosen = connection(model.__connection__)
            collection = chosen._collections[is_async].get(model)
            if collection is None:
                collection = chosen.collection(model, is_async)
            if options:
                settings = {name: options[name] for name in SETTINGS if name in options}
                collection = collection.with_options(**settings) if settings else collection
        self.connection = chosen
        self.collection = collection
        self.port: Port = collection._port
        where = query._where
        # The same as `query` for at most one condition, inlined to save a frame.
        kind = type(where[0]) if len(where) == 1 else None
        self.filter: dict[str, Any]
        if model.__tenant__ is not None:
            # A collation of the aggregation or the stream itself is not known yet.
            is_exact = not wanted.is_find or options.get("collation") is not None
            self.filter = query._narrowed(is_exact)
        elif model.__tag_value__ is not None or (kind is not Expr and kind is not dict and where):
            self.filter = query.query
        elif kind is Expr:
            self.filter = where[0].query
        else:
            self.filter = {**where[0]} if where else {}
        keywords = {} if query._is_plain else check_options(query, wanted)
        score = query._wish.get("score")
        if score is not None and (query._shape is not None or terminal in ("dicts", "raw")):
            keywords["projection"] = {**(keywords.get("projection") or {}), score: {"$meta": "textScore"}}
        limit = keywords.get("limit")
        if wanted.most and (not limit or limit > wanted.most):
            keywords["limit"] = limit = wanted.most
        # How many documents are still wanted; None: those that the server returns.
        self.left: int | None = None
        if limit and query._on_invalid != "raise" and wanted.hands_out:
            # Documents that do not fit do not count, so the cursor continues after them.
            self.left = keywords.pop("limit")
            keywords.setdefault("batch_size", max(2, limit))
        # A single document is decoded completely, and so is one that `on_invalid` has to check.
        self.is_lazy: bool = query._wish.get(
            "lazy", not wanted.most and limit != 1 and query._on_invalid == "raise"
        )
        session, running = query._session, current_sessions()
        if session is None and running is not None:
            session = running.get(chosen.clients)
        if session is not None:
            if options and session.in_transaction:
                for name in ("write_concern", "read_concern"):
                    if options.get(name) is not None and (wanted.is_write or name == "read_concern"):
                        raise concern_in_transaction(name)
            keywords["session"] = session
        self.keywords = keywords

    @property
    def session(self) -> dict[str, Any]:
        """The session keyword, for additional commands of the operation."""
        session = self.keywords.get("session")
        return {} if session is None else {"session": session}

    def read(self, batch: Any, documents: list[Any], limit: int | None = None) -> None:
        """Read documents from a batch in the query's result form.

        Args:
            batch: the driver's batch.
            documents: the list to extend.
            limit: how many. None: all. With `on_invalid` all are read.

        Raises:
            ValidationError: a document does not fit the model, and `on_invalid` is "raise".
        """
        query = self.query
        model, on_invalid = query._model, query._on_invalid
        is_strict = on_invalid == "raise"
        only = query._only() if query._wish else None
        while self.left != 0:
            had = len(documents)
            try:
                if query._shape is None:
                    _core.odm_drain(
                        batch,
                        model.__model__,
                        documents,
                        limit if is_strict else 1,
                        self.is_lazy,
                        only,
                        False,
                        self.connection,
                    )
                else:
                    drain = reader(query._shape, model.__tz_aware__, self.connection)
                    drain(batch, documents, limit if is_strict else 1)
            except ValidationError as error:
                error = located(error, model, self.collection.name)
                if is_strict:
                    raise error from None
                if callable(on_invalid):
                    on_invalid(error)
            if self.left is not None:
                self.left -= len(documents) - had
            if is_strict or batch.is_empty:
                return

    def answer(self, batch: Any) -> Any:
        """Return the single document of a terminal operation from the first batch of its find."""
        has_more = batch is None or batch.id != 0
        if has_more:
            self.end(batch)
        found: list[Any] = []
        query = self.query
        if query._is_plain:
            # The same as `read`, inlined to save a frame.
            model = query._model
            try:
                _core.odm_drain(
                    batch, model.__model__, found, None, self.is_lazy, None, False, self.connection
                )
            except ValidationError as error:
                raise located(error, model, self.collection.name) from None
        else:
            self.read(batch, found)
        known = current_map()
        if known is not None and query._shape is None:
            found = list(map(known.take, found))
        return found[0] if len(found) == 1 and not has_more else query._single_of(self, found, has_more)

    def end(self, batch: Any) -> None:
        """End the cursor of a first batch: its remaining documents will not be read.

        Raises:
            ProtocolError: the reply has no cursor.
        """
        if batch is None:
            raise ProtocolError("expected a cursor in the reply, got none")
        cursor = self.collection.find(self.filter)
        cursor._take(batch)
        cursor._abandon()

    def of(self, query: Any, terminal: str) -> Request:
        """Return the request of another query, or of another step, at the same place."""
        return Request(query, terminal, self.port.is_async, self)


def check_options(query: Any, terminal: Terminal) -> dict[str, Any]:
    """Return a query's options as keywords for a terminal operation.

    Raises:
        UnsupportedOption: the operation cannot honour one.
    """
    passes, takes = terminal.passes, terminal.takes
    keywords: dict[str, Any] = {}
    for name, value in query._options.items():
        if value is None:
            continue
        keyword = passes.get(name)
        if keyword is not None:
            keywords[keyword] = value
        elif name not in takes:
            if not terminal.is_find or name in ASKED_BY:
                raise unsupported(terminal.name, name)
            keywords[name] = value
    if query._includes and "include" not in takes:
        raise unsupported(terminal.name, "include")
    if query._joins and "joins" not in takes:
        raise unsupported(terminal.name, "joins")
    if query._lookups and "lookup" not in takes:
        raise unsupported(terminal.name, "lookup")
    if query._shape is not None and "shape" not in takes:
        raise unsupported(terminal.name, "shape")
    if query._on_invalid != "raise" and "on_invalid" not in takes:
        raise unsupported(terminal.name, "on_invalid")
    if query._shape is not None and (query._includes or query._lookups):
        raise beside("include" if query._includes else "lookup", "shape")
    if query._lookups:
        # One aggregation is sent.
        for name in query._options:
            if query._options[name] is not None and name not in _FIND and name not in takes:
                raise beside("lookup", name)
    return keywords


def beside(option: str, other: str) -> UnsupportedOption:
    """Return the error for two options that cannot be honoured together."""
    asked = ASKED_BY.get(other, f"options({other}=…)")
    return UnsupportedOption(f"{ASKED_BY[option]} cannot honour {asked} beside it: leave one of them out")


def unsupported(terminal: str, option: str) -> UnsupportedOption:
    """Return the error for an option that an operation cannot honour."""
    asked = ASKED_BY.get(option, f"options({option}=…)")
    able = sorted(
        name
        for name, other in TERMINALS.items()
        if option in other.passes or option in other.takes or (other.is_find and option not in ASKED_BY)
    )
    remedy = f"leave it out; {', '.join(f'{name}()' for name in able[:4])} can" if able else "leave it out"
    return UnsupportedOption(f"{terminal}() cannot honour {asked}: {remedy}")


def is_windowed(query: Any) -> bool:
    """Whether a query selects only a part of its filter's matches."""
    return bool(query._options.get("limit") or query._options.get("skip"))


async def ids_flow(request: Request) -> list[Any]:
    """Return the ids of a query's documents, within its window."""
    query = request.query._bare(projection={"_id": 1})
    return [row["_id"] for row in await dicts_flow(request.of(query, "dicts"))]


async def dicts_flow(request: Request) -> list[dict[str, Any]]:
    """Return a query's documents as the driver's dicts."""
    if request.query._joins:
        from mangonel.odm.query.joins import window_flow

        cursor = await window_flow(request)
    else:
        cursor = request.collection.find(request.filter, **request.keywords)
    try:
        found: list[dict[str, Any]] = await cursor._to_list_flow(None)
    except InvalidBSON as error:
        raise await undecodable_flow(request, error, request.collection.codec_options) from None
    return found


async def undecodable_flow(request: Request, error: InvalidBSON, options: Any, **keywords: Any) -> Exception:
    """Return the error for a document that cannot be decoded: the documents are read again to find it.

    Args:
        request: the request that met it.
        error: the driver's error.
        options: the codec options that fail on it.
        keywords: other options of the find.
    """
    cursor = raw_collection(request.collection).find(request.filter, **{**request.keywords, **keywords})
    try:
        while await cursor._fetch_flow():
            batch, cursor._batch = cursor._batch, None
            for data in split(batch.raw()):
                try:
                    decode(data, options)
                except InvalidBSON as found:
                    return undecodable(found, request.query._model, request.collection.name, data)
    finally:
        await cursor._close_flow()
    # Another program has corrected the document meanwhile.
    return error


# An id takes about 20 bytes of a command, which is limited to 16 MiB.
MOST_IDS = 50_000


def in_parts(ids: list[Any], key: str = "_id") -> list[dict[str, Any]]:
    """Return filters that together match the documents with one of these ids, each short enough for a command."""
    return [{key: {"$in": ids[start : start + MOST_IDS]}} for start in range(0, len(ids), MOST_IDS)]


async def filters_flow(request: Request, *, by_id: bool = False) -> list[dict[str, Any]]:
    """Return filters that together match a query's documents: the query's own filter, or filters by their ids.

    A query with a limit, skip or join needs the ids, as does `by_id`. They are read first; documents that no longer
    match the query by then are left alone.
    """
    if not (by_id or request.query._joins or is_windowed(request.query)):
        return [request.filter]
    return [{"$and": [part, request.filter]} for part in in_parts(await ids_flow(request))]


def split(data: bytes) -> list[bytes]:
    """Split concatenated documents."""
    documents: list[bytes] = []
    at = 0
    while at < len(data):
        length = int.from_bytes(data[at : at + 4], "little")
        documents.append(data[at : at + length])
        at += length
    return documents
