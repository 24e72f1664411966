"""`include`: fetches the documents of references, with one query for each field and level."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, get_origin

from mangonel import _core
from mangonel.odm.connections.identity import current_map
from mangonel.odm.errors import UnsupportedOption, ValidationError
from mangonel.odm.expressions.paths import Path, path_of
from mangonel.odm.model.belongs_to import held
from mangonel.odm.model.invalid import located
from mangonel.odm.model.refs import Ref, Refs, _hashable, fetch_flow


async def include_flow(model: Any, documents: list[Any], fields: Iterable[Any], request: Any) -> None:
    """Fetch the targets of reference fields and attach them."""
    for field in fields:
        steps = field if isinstance(field, (tuple, list)) else (field,)
        current = documents
        owner = model
        for step in steps:
            path = _path(owner, step)
            _check_reference(path, "include")
            current, owner = await _level_flow(current, path, request)


def _path(owner: Any, step: Any) -> Path[Any]:
    if not isinstance(step, str):
        return path_of(step)
    found: Any = owner
    for name in step.split("."):
        found = getattr(found, name)
    return path_of(found)


def references(documents: Iterable[Any], path: Path[Any]) -> list[Any]:
    """Return the references at a path in documents, also inside lists and embedded documents."""
    names = _attributes(path)
    level: list[Any] = list(documents)
    for name in names:
        following: list[Any] = []
        for item in level:
            value = _value(item, name)
            if isinstance(value, (list, tuple, set, frozenset)):
                following += [part for part in value if part is not None]
            elif isinstance(value, dict):
                following += list(value.values())
            elif value is not None:
                following.append(value)
        level = following
    return [item for item in level if isinstance(item, (Ref, Refs))]


def _value(item: Any, name: str) -> Any:
    """Return an item's value, or None if it was not loaded."""
    try:
        return held(item, name)
    except AttributeError:
        return None


def _attributes(path: Path[Any]) -> list[str]:
    """Return the attributes that lead to a path's field."""
    names: list[str] = []
    owner = path._model
    for key in path._key.split("."):
        field = next(field for field in owner.__plan__.fields.values() if field.key == key)
        names.append(field.name)
        owner = field.model
    return names


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
        self.target = _check_reference(path, "lookup")
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
        self.stages = _stages(request)
        self._places: list[tuple[int, Any]] = []
        # Documents of several models, or already loaded ones, have references with makers of their own.
        self.is_direct: bool = (
            query._on_invalid == "raise" and current_map() is None and not query._model.__tagged__()
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
        cursor = await request.port.call(
            _aggregate, request.collection, self.stages, _options(request.keywords)
        )
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
        _attach(references(documents, path), made)


def _check_reference(path: Path[Any], terminal: str) -> Any:
    """Return the target model of the references at a path; refuse a path without any."""
    target = path._field().target
    if target is None:
        raise TypeError(f"expected a reference for {terminal}(), got {path!r}")
    return target


def _stages(request: Any) -> list[dict[str, Any]]:
    keywords = request.keywords
    stages: list[dict[str, Any]] = [{"$match": request.filter}] if request.filter else []
    for option, stage in _AS_STAGE:
        value = keywords.get(option)
        if value:
            stages.append({stage: value})
    stages.append(_AS_ROW)
    return stages


_AS_STAGE = (("sort", "$sort"), ("skip", "$skip"), ("limit", "$limit"), ("projection", "$project"))
# The first value of a row is the document.
_AS_ROW: dict[str, Any] = {"$project": {"_id": 0, "d": "$$ROOT"}}


_AS_AGGREGATE = {
    "hint": "hint",
    "comment": "comment",
    "collation": "collation",
    "let": "let",
    "session": "session",
    "max_time_ms": "maxTimeMS",
    "batch_size": "batchSize",
    "allow_disk_use": "allowDiskUse",
}


def _options(keywords: dict[str, Any]) -> dict[str, Any]:
    return {_AS_AGGREGATE[name]: value for name, value in keywords.items() if name in _AS_AGGREGATE}


def _aggregate(collection: Any, stages: list[Any], options: dict[str, Any]) -> Any:
    return collection.aggregate(stages, **options)


async def _level_flow(documents: list[Any], path: Path[Any], request: Any) -> tuple[list[Any], Any]:
    found = references(documents, path)
    if not found:
        return [], None
    target = found[0]._target()
    wanted: list[Any] = []
    for ref in found:
        wanted += ref.ids if isinstance(ref, Refs) else [ref.id]
    query = target.find()._from(request.connection).session(request.query._session)
    fetched = await fetch_flow(query._request("all", request.port.is_async), wanted)
    _attach(found, fetched)
    return fetched, target


def _attach(found: list[Any], fetched: list[Any]) -> None:
    """Attach documents to references and to their siblings."""
    by_id = {_hashable(document.id): document for document in fetched}
    # The references of one batch share the fetched documents, stored once.
    told: set[tuple[int, int]] = set()
    for ref in found:
        if type(ref) is Ref:
            ref._loaded = by_id.get(_hashable(ref.id))
        else:
            ref._loaded = {_hashable(id): by_id[_hashable(id)] for id in ref.ids if _hashable(id) in by_id}
        siblings, maker = ref._siblings, ref._maker
        if siblings is None:
            siblings = ref._siblings = _core.OdmSiblings()
        key = (id(siblings), id(maker))
        if key not in told:
            told.add(key)
            siblings.loaded.update({(maker, id): document for id, document in by_id.items()})
