"""`include`: fetches the documents that references lead to, with one command for each reference and level.

A reference that several paths lead through is fetched once. `related()` gives one its own query.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, get_origin

from mangonel import _core
from mangonel.odm.connections.identity import current_map
from mangonel.odm.errors import UnsupportedOption
from mangonel.odm.expressions.paths import Path
from mangonel.odm.expressions.through import ManyPath, Through, hop, links_of, target_of
from mangonel.odm.model.fetched import Fetched, key_of_id
from mangonel.odm.model.refs import Refs, fetch_flow, flat_ids
from mangonel.odm.query.children import children_flow
from mangonel.odm.query.references import attach, makers_of, references

# The options that the query of `related()` may have besides conditions.
_HONOURED = frozenset(
    (
        *("sort", "limit", "skip", "projection", "hint", "comment", "collation", "max_time_ms", "batch_size"),
        *("allow_disk_use", "let"),
    )
)


class Related:
    """A reference with its own query, for `include()`. Made by `related()`."""

    __slots__ = ("field", "query")

    def __init__(self, field: Any, query: Any) -> None:
        self.field = field
        self.query = query

    def __repr__(self) -> str:
        return f"related({self.field!r}, {self.query!r})"


def related(field: Any, query: Any) -> Any:
    """Give a reference of `include()` its own conditions, order and limits.

    For a `Many` and a `Refs`, order, skip and limit apply to each document's own list. Fields of the query's `only()`
    and its `include()` apply to the documents that it finds.

    Args:
        field: a reference, such as `Post.author`, or an inverse, such as `User.posts`; also behind other references.
        query: a query of the model that it leads to.

    Raises:
        UnsupportedOption: the query has an option that cannot be honoured here, such as `as_()` or its own session.

    Example:
        >>> query = User.find().include(related(User.posts, Post.find(Post.likes > 3).sort("-likes").limit(2)))
    """
    if not hasattr(query, "_includes"):
        raise TypeError(f"expected a query for related({field!r}), such as Post.find(), got {query!r}")
    for name, is_asked in (
        ("as_()", query._shape is not None),
        ("session()", query._session is not None),
        ("timeout()", query._seconds is not None),
        *(
            (f"options({name}=…)", query._options[name] is not None)
            for name in query._options.keys() - _HONOURED
        ),
    ):
        if is_asked:
            raise UnsupportedOption(
                f"related() cannot honour {name}: leave it out, or set it on the outer query"
            )
    return Related(field, query)


class Node:
    """One reference to fetch, with the references of its documents to fetch in turn.

    Attributes:
        link: the path of the reference in its own model, or the `ManyPath` of an inverse.
        target: the model that it leads to.
        query: the documents to fetch; None: all that the model's `find()` returns.
        inner: the nodes below.
    """

    __slots__ = ("inner", "link", "query", "target")

    def __init__(self, link: Any, query: Any = None, inner: tuple[Node, ...] = ()) -> None:
        self.link = link
        self.target = check_reference(link, "include")
        self.query = query
        self.inner = inner
        if query is not None and not issubclass(query._model, self.target):
            raise TypeError(
                f"expected a query of {self.target.__name__} for related({link!r}), got one of {query._model.__name__}"
            )

    @property
    def name(self) -> Any:
        """The name that identifies the reference in its model."""
        return self.link._descriptor if isinstance(self.link, ManyPath) else self.link._key

    @property
    def key(self) -> str:
        """The key of the model's own field that it needs."""
        return "_id" if isinstance(self.link, ManyPath) else self.link._key.partition(".")[0]

    def with_(self, other: Node) -> Node:
        """Return a node for both."""
        if self.query is not None and other.query is not None and self.query is not other.query:
            raise UnsupportedOption(
                f"include() cannot honour two queries for {self.link!r}: leave one of them out"
            )
        query = other.query if self.query is None else self.query
        return Node(self.link, query, merged(self.inner, other.inner))

    def wanted(self, request: Any) -> Any:
        """Return the query for its documents, on the connection and in the session of the outer request."""
        query = self.target.find() if self.query is None else self.query
        if query._connection is None:
            query = query._from(request.connection)
        if self.inner:
            query = query.include(*self.inner)
        return query if request.query._session is None else query.session(request.query._session)


def nodes_of(model: Any, field: Any) -> Node:
    """Return the node for one argument of `include()`: a path, a name, a tuple of these, `related()`, a node.

    Raises:
        TypeError, AttributeError: it leads to no reference.
    """
    if isinstance(field, Node):
        return field
    links: list[tuple[Any, Any]] = []
    owner = model
    for step in field if isinstance(field, (tuple, list)) else (field,):
        query = step.query if isinstance(step, Related) else None
        step = step.field if isinstance(step, Related) else step
        path = _named(owner, step) if isinstance(step, str) else step
        if not isinstance(path, (Path, ManyPath)):
            raise TypeError(f"expected a reference for include(), such as Post.author, got {step!r}")
        steps = links_of(path)
        for link in steps:
            owner = check_reference(link, "include")
            links.append(
                (link._local() if isinstance(link, Through) else link, query if link is path else None)
            )
    node: Node | None = None
    for link, query in reversed(links):
        node = Node(link, query, () if node is None else (node,))
    if node is None:
        raise TypeError("expected a reference for include(), got none")
    return node


def merged(nodes: Iterable[Node], others: Iterable[Node]) -> tuple[Node, ...]:
    """Return the nodes of both, each reference once."""
    found = {node.name: node for node in nodes}
    for node in others:
        known = found.get(node.name)
        found[node.name] = node if known is None else known.with_(node)
    return tuple(found.values())


def looked_up(model: Any, known: Iterable[Any], fields: Iterable[Any]) -> tuple[Any, ...]:
    """Return the joins of one command: references of the model itself as paths, then all others as nodes.

    Args:
        model: the model of the query.
        known: the joins of earlier calls, in this form.
        fields: further arguments of `lookup()`, or parts of this form.

    Raises:
        TypeError, AttributeError: one leads to no reference.
    """
    plain = [item for item in known if not isinstance(item, Node)]
    nodes = merged([item for item in known if isinstance(item, Node)], ())
    for field in fields:
        if isinstance(field, Path) and not isinstance(field, Through):
            plain.append(field)
        else:
            nodes = merged(nodes, [nodes_of(model, field)])
    # A path through a reference fetches the reference itself too.
    names = {node.name for node in nodes}
    return (*(path for path in dict.fromkeys(plain) if path._key not in names), *nodes)


def _named(owner: Any, name: str) -> Any:
    first, _, rest = name.partition(".")
    found: Any = (
        hop(None, owner, first) if first not in owner.__plan__.fields else owner.__expressions__[first]
    )
    for part in rest.split(".") if rest else ():
        found = getattr(found, part)
    return found


def check_reference(link: Any, terminal: str) -> Any:
    """Return the model that a reference leads to.

    Raises:
        TypeError: the path is no reference.
    """
    target = target_of(link)
    if target is None:
        raise TypeError(f"expected a reference for {terminal}(), got {link!r}")
    return target


async def include_flow(model: Any, documents: list[Any], nodes: Iterable[Node], request: Any) -> None:
    """Fetch the documents of references, and attach them."""
    for node in nodes:
        if isinstance(node.link, ManyPath):
            await children_flow(node, documents, request)
        else:
            await reference_flow(node, model, documents, request)


async def reference_flow(
    node: Node, model: Any, documents: list[Any], request: Any, given: list[Any] | None = None
) -> None:
    """Attach the documents that a reference leads to; fetch them, unless they are `given`."""
    path, query = node.link, node.wanted(request)
    window = _window(node, query)
    # Documents known before have their own siblings and values.
    makers = makers_of(model, path) if current_map() is None else None
    refs: list[Any] = []
    siblings: Any = ()
    if makers is None:
        refs = references(documents, path)
        wanted = flat_ids(refs)
    else:
        siblings = _core.odm_siblings(documents)
        wanted = [id for maker in makers for id in _core.odm_wanted(siblings, maker)]
    query = query._with(limit=None, skip=None) if window is not None else query
    if given is not None:
        found = given
    else:
        found = await fetch_flow(query._request("all", request.port.is_async), wanted) if wanted else []
    fetched = Fetched({key_of_id(document.id): document for document in found}, is_included=True)
    fetched.window = window
    if given is not None:
        fetched.note_absent(wanted)
    elif len(fetched) < len(wanted):
        await _absent_flow(fetched, wanted, node, query, request)
    if makers is None:
        attach(refs, fetched)
        return
    for company in siblings:
        for maker in makers:
            known = company.loaded.get(maker)
            company.loaded[maker] = fetched if known is None else known.joined(fetched)


def _window(node: Node, query: Any) -> tuple[bool, int, int | None] | None:
    """Return the order and limits of a `Refs`; refuse them for a single reference, and for one in a container."""
    options = query._options
    sort, skip, limit = options.get("sort"), options.get("skip") or 0, options.get("limit")
    field = node.link._field()
    if (get_origin(field.type) or field.type) is Refs:
        return None if node.query is None else (bool(sort), skip, limit)
    for name, value in (("sort", sort), ("skip", skip), ("limit", limit)):
        if value:
            raise UnsupportedOption(
                f"include() cannot honour {name}() for {node.link!r}, which leads to one document each; leave it out"
            )
    return None


async def _absent_flow(fetched: Fetched, wanted: list[Any], node: Node, query: Any, request: Any) -> None:
    """Record why references lead to no document."""
    absent = {key_of_id(id): id for id in wanted}
    for key in fetched:
        absent.pop(key, None)
    if not absent:
        return
    name = node.target.__name__
    reason = f"leads to no document: no {name} has this _id"
    if query._where and node.query is not None:
        reason = f"leads to no document that the query of related() finds: {query.query!r}"
    fetched.absent = dict.fromkeys(absent, reason)
    if not node.target.__soft_delete__():
        return
    marked = node.target.deleted()._from(request.connection).session(request.query._session)
    marked = marked.only("_id")
    ids = list(absent.values())
    for document in await fetch_flow(marked._request("all", request.port.is_async), ids):
        fetched.absent[key_of_id(document.id)] = f"leads to a {name} that is marked as deleted"
