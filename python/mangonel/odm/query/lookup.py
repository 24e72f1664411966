"""`lookup`: documents together with those that their references lead to, in one command by `$lookup`.

Also conditions and orders on documents that references lead to: the command joins them, and leaves them out again.
"""

from __future__ import annotations

from typing import Any, get_origin

from mangonel import _core
from mangonel.odm.connections.identity import current_map
from mangonel.odm.errors import UnsupportedOption, ValidationError
from mangonel.odm.expressions.paths import Path
from mangonel.odm.model.fetched import Fetched, key_of_id
from mangonel.odm.model.invalid import located
from mangonel.odm.model.refs import Ref, Refs
from mangonel.odm.query.include import check_reference
from mangonel.odm.query.joins import window_flow, window_stages
from mangonel.odm.query.references import attach, references


class _Join:
    """The facts about a reference that a lookup needs, computed once for each path and model.

    Attributes:
        model: the model with the reference.
        key: the reference's path in the database.
        target: the model that it leads to.
        place: the model's field that is the reference, with the target in the core's form; None for one that is nested,
            or in a list or a map.
    """

    __slots__ = ("_stages", "key", "model", "place", "target")

    def __init__(self, path: Path[Any], model: Any) -> None:
        self.model = model
        self.key = path._key
        self.target = check_reference(path, "lookup")
        self.place: tuple[int, Any] | None = None
        for index, field in enumerate(model.__plan__.fields.values()):
            if field.key == self.key and (get_origin(field.type) or field.type) in (Ref, Refs):
                self.place = (index, self.target.__model__)
        self._stages: dict[int, dict[str, Any]] = {}

    def stage(self, number: int) -> dict[str, Any]:
        """Return the stage that fetches the reference's document, for the lookup with this number in a pipeline."""
        target = self.target
        has_scope = any((target.__default_scope__, target.__tag_value__, target.__tenant__))
        if not has_scope and number in self._stages:
            return self._stages[number]
        stage: dict[str, Any] = {
            "from": target.__collection_name__(),
            "localField": f"d.{self.key}",
            "foreignField": "_id",
            "as": f"r{number}",
        }
        made = {"$lookup": stage}
        if not has_scope:
            self._stages[number] = made
            return made
        scope = target.find().query
        if scope:
            stage["pipeline"] = [{"$match": scope}]
        return made


class Lookup:
    """Documents with their references' documents, from one aggregation.

    Attributes:
        stages: stages of the aggregation.
        is_direct: whether the core attaches the found documents to references while it makes the documents.
    """

    __slots__ = ("_places", "_query", "_request", "is_direct", "stages")

    def __init__(self, query: Any, request: Any) -> None:
        self._query = query
        self._request = request
        self.stages = [*window_stages(request), _AS_ROW]
        self._places: list[tuple[int, Any]] = []
        # Documents of several models, or already loaded ones, have references with makers of their own.
        self.is_direct: bool = (
            query._on_invalid == "raise"
            and query._shape is None
            and current_map() is None
            and not query._model.__tagged__()
        )
        alias = request.connection.alias
        for number, path in enumerate(query._lookups):
            join: _Join | None = path._join
            if join is None or join.model is not query._model:
                join = path._join = _Join(path, query._model)
            if join.target.__connection__ != alias:
                raise UnsupportedOption(
                    f"lookup() cannot honour {path!r}: {join.target.__name__} is in another database; use include()"
                )
            self.stages.append(join.stage(number))
            if join.place is None:
                self.is_direct = False
            else:
                self._places.append(join.place)

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
            else:
                rows += _core.odm_rows(cursor._batch)
            if not await cursor._fetch_flow():
                break
        if self.is_direct:
            finished: list[Any] = await query._finished_flow(request, documents)
            return finished
        documents = await query._decoded_flow(request, [row[0] for row in rows])
        _attach_found(query, request, documents, rows)
        return documents

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
        """Read documents from a batch, each with its references' documents.

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
            raise located(error, query._model, request.collection.name) from None


def _attach_found(query: Any, request: Any, documents: list[Any], rows: list[list[Any]]) -> None:
    """Attach the found documents to the references of documents."""
    for number, path in enumerate(query._lookups):
        unique = {found for row in rows for found in row[number + 1]}
        model = path._field().target.__model__
        made = _core.odm_decode_all(model, b"".join(unique), True, None, False, request.connection)
        fetched = Fetched({key_of_id(document.id): document for document in made}, is_included=True)
        attach(references(documents, path), fetched)


# The first value of a row is the document.
_AS_ROW: dict[str, Any] = {"$project": {"_id": 0, "d": "$$ROOT"}}
