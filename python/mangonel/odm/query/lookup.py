"""`lookup`: reads documents and those that their references lead to in one command, with `$lookup`.

For conditions and orders on referenced documents, the command joins these too, and removes them again.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, get_origin

from mangonel import _core
from mangonel.odm.connections.identity import current_map
from mangonel.odm.errors import UnsupportedOption, ValidationError
from mangonel.odm.expressions.keys import key_of_name
from mangonel.odm.expressions.paths import Path
from mangonel.odm.expressions.through import ManyPath
from mangonel.odm.model.encrypted_trees import encrypted_tree
from mangonel.odm.model.fetched import Fetched, key_of_id
from mangonel.odm.model.invalid import located
from mangonel.odm.model.refs import flat_ids
from mangonel.odm.query.children import children_flow, grouped, narrowed_children
from mangonel.odm.query.include import Node, merged, reference_flow
from mangonel.odm.query.joins import stages_of, window_flow, window_stages
from mangonel.odm.query.references import attach, references
from mangonel.odm.query.request import Request
from mangonel.odm.query.short_lookup import AS_ROW, join_of


class Lookup:
    """Documents with their references' documents, from one aggregation.

    Attributes:
        stages: stages of the aggregation.
        is_direct: whether the core attaches the found documents to references while it makes the documents.
    """

    __slots__ = ("_branches", "_fields", "_number", "_places", "_query", "_request", "is_direct", "stages")

    def __init__(self, query: Any, request: Any) -> None:
        self._query = query
        self._request = request
        self.stages = [*window_stages(request), AS_ROW]
        self._places: list[tuple[int, Any]] = []
        # The fields of the places.
        self._fields: list[Any] = []
        # References that lead from document to document, or have their own query.
        self._branches: list[_Branch] = []
        # Documents of several models, or already loaded ones, have references with different makers.
        self.is_direct: bool = (
            query._on_invalid == "raise"
            and query._shape is None
            and current_map() is None
            and not query._model.__tagged__()
        )
        alias = request.connection.alias
        number = 0
        for number, path in enumerate(query._lookups, 1):
            if isinstance(path, Node):
                # Their stages come last and are numbered separately.
                number -= 1
                break
            join = join_of(path, query._model)
            if join.target.__connection__ != alias:
                raise UnsupportedOption(
                    f"lookup() cannot honour {path!r}: {join.target.__name__} is in another database; use include()"
                )
            self.stages.append(join.stage(number - 1))
            if join.place is None:
                self.is_direct = False
            else:
                self._places.append(join.place)
                self._fields.append(path._field())
        self._number = number
        for node in query._lookups[number:]:
            self.is_direct = False
            self._branches.append(self._grown(node, "d", True))

    def _grown(self, node: Node, local: str, is_top: bool) -> _Branch:
        """Add the stages for a reference and for those behind it; `local` is the position of its document in a row.

        Raises:
            UnsupportedOption: one command cannot honour it.
        """
        branch = _Branch(node, self._number, self._request, is_top)
        self._number += 1
        stage = branch.stage(local, self._request)
        self.stages.append({"$lookup": stage})
        branch.inner = [self._grown(inner, stage["as"], False) for inner in branch.nodes]
        return branch

    async def all_flow(self) -> list[Any]:
        """Fetch the documents."""
        query, request = self._query, self._request
        cursor = await window_flow(request, self.stages)
        documents: list[Any] = []
        rows: list[list[Any]] = []
        while True:
            # The first batch came with the command.
            if self.is_direct:
                self._read(cursor._batch, documents)
            elif query._on_invalid == "raise":
                rows += _core.odm_rows(cursor._batch)
            else:
                self._take_fitting(cursor._batch, documents, rows)
            if request.left == 0:
                await cursor._close_flow()
                break
            if not await cursor._fetch_flow():
                break
        if not self.is_direct and query._on_invalid == "raise":
            documents = query._decoded(request, [row[0] for row in rows])
        documents = await query._finished_flow(request, documents)
        if self.is_direct:
            return documents
        _attach_found(query, request, documents, rows)
        for branch in self._branches:
            await branch.attach_flow(query._model, documents, rows, request)
        return documents

    def _take_fitting(self, batch: Any, documents: list[Any], rows: list[list[Any]]) -> None:
        """Take the rows of a batch whose documents fit the model, as many as are wanted."""
        request = self._request
        for row in _core.odm_rows(batch):
            made = self._query._decoded(request, row[:1])
            documents += made
            rows += [row] * len(made)
            if request.left is not None:
                request.left -= len(made)
                if request.left == 0:
                    return

    def answer(self, batch: Any) -> Any:
        """Return the single document of a terminal operation from the first batch of a direct lookup."""
        request = self._request
        has_more = batch is None or batch.id != 0
        if has_more:
            request.end(batch)
        found: list[Any] = []
        self._read(batch, found)
        return (
            found[0] if len(found) == 1 and not has_more else self._query._single_of(request, found, has_more)
        )

    def _read(self, batch: Any, documents: list[Any]) -> None:
        """Read documents from a batch, each with its references' documents, or the reasons why there are none.

        Raises:
            ValidationError: a document, or a referenced one, does not fit its model.
        """
        query, request = self._query, self._request
        only = query._only() if query._wish else None
        try:
            _core.odm_drain_joined(
                batch,
                query._model.__model__,
                documents,
                self._places,
                request.is_lazy,
                only,
                request.connection,
            )
        except ValidationError as error:
            number = getattr(error, "target", None)
            if number is not None:
                raise _located_target(error, self._fields[number].target) from None
            raise located(error, query._model, request.collection.name) from None


def answer(
    model: Any, query: dict[str, Any], is_async: bool, terminal: str, batch: Any, paths: tuple[Any, ...]
) -> Any:
    """Return the result of `single_joined` where the first batch is not exactly one row that fits the models."""
    found = model.unscoped(query).lookup(*paths)
    return Lookup(found, Request(found, terminal, is_async)).answer(batch)


class _Branch:
    """A reference that a lookup follows, with the references behind it."""

    __slots__ = ("inner", "is_top", "node", "nodes", "number", "place")

    def __init__(self, node: Node, number: int, request: Any, is_top: bool) -> None:
        plain = Node(node.link, node.query)
        is_many = isinstance(node.link, ManyPath)
        query = narrowed_children(plain, request) if is_many else plain.wanted(request)
        options = {name: value for name, value in query._options.items() if value is not None}
        refused = sorted(options.keys() - {"sort", "skip", "limit", "projection"})
        if is_many and not is_top:
            refused += sorted(options.keys() & {"skip", "limit"})
        elif not is_many:
            refused += sorted(options.keys() & {"sort"})
            if _is_map(node.link):
                raise UnsupportedOption(
                    f"lookup() cannot honour {node.link!r}, which is in a map; use include()"
                )
        if refused or query._joins or query._lookups or query._on_invalid != "raise":
            what = f"{refused[0]}()" if refused else "conditions on references, lookup() or on_invalid"
            raise UnsupportedOption(f"lookup() cannot honour {what} for {node.link!r}; use include()")
        bare = query._copy()
        bare._includes = ()
        self.node = node
        self.number = number
        self.is_top = is_top
        self.place = bare._request("all", request.port.is_async)
        if self.place.connection is not request.connection or encrypted_tree(node.target) is not None:
            raise UnsupportedOption(
                f"lookup() cannot honour {node.link!r}: {node.target.__name__} is in another database, or encrypted; "
                "use include()"
            )
        self.nodes = merged(node.inner, query._includes)
        self.inner: list[_Branch] = []

    def stage(self, local: str, request: Any) -> dict[str, Any]:
        """Return the stage that joins its documents."""
        link, options = self.node.link, self.place.query._options
        pipeline = [{"$match": self.place.filter}] if self.place.filter else []
        if isinstance(link, ManyPath):
            key, foreign = "_id", key_of_name(link._descriptor.inverse.by, self.node.target)
            pipeline += stages_of(options)
        else:
            key, foreign = link._key, "_id"
        pipeline += stages_of(options, "projection")
        stage: dict[str, Any] = {
            "from": self.place.collection.name,
            "localField": f"{local}.{key}",
            "foreignField": foreign,
            "as": f"r{self.number}",
        }
        if pipeline:
            stage["pipeline"] = pipeline
        return stage

    async def attach_flow(
        self, model: Any, documents: list[Any], rows: list[list[Any]], request: Any
    ) -> None:
        """Attach the found documents to their references, level by level."""
        found = list(dict.fromkeys(data for row in rows for data in row[self.number + 1]))
        made = await self.place.query._decoded_flow(self.place, found)
        if isinstance(self.node.link, ManyPath):
            by_data = dict(zip(found, made, strict=True))
            if self.is_top:
                groups = {
                    key_of_id(document.id): [by_data[data] for data in row[self.number + 1]]
                    for document, row in zip(documents, rows, strict=True)
                }
            else:
                # Row by row, since the server has sorted the documents within each row.
                key = key_of_name(self.node.link._descriptor.inverse.by, self.node.target)
                groups = {}
                for row in rows:
                    children = [by_data[data] for data in row[self.number + 1]]
                    for parent, group in grouped(children, key, self.node.target).items():
                        groups.setdefault(parent, group)
            await children_flow(self.node, documents, request, groups)
        else:
            await reference_flow(self.node, model, documents, request, made)
        for branch in self.inner:
            await branch.attach_flow(self.node.target, made, rows, request)


def _is_map(path: Path[Any]) -> bool:
    kind = path._field().type
    return issubclass(get_origin(kind) or kind, Mapping)


def _attach_found(query: Any, request: Any, documents: list[Any], rows: list[list[Any]]) -> None:
    """Attach the found documents to the references of documents."""
    for number, path in enumerate(query._lookups):
        if isinstance(path, Node):
            return
        unique = {found for row in rows for found in row[number + 1]}
        target = path._field().target
        try:
            made = _core.odm_decode_all(
                target.__model__, b"".join(unique), True, None, False, request.connection
            )
        except ValidationError as error:
            raise _located_target(error, target) from None
        fetched = Fetched({key_of_id(document.id): document for document in made}, is_included=True)
        refs = references(documents, path)
        if not _is_map(path):
            fetched.note_absent(flat_ids(refs))
        attach(refs, fetched)


def _located_target(error: ValidationError, target: Any) -> ValidationError:
    """Return the error with the place of the referenced document that does not fit."""
    return located(error, target, target.__collection_name__())
