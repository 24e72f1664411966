"""The short way to read a single document and that of one reference: an aggregation that the core builds and reads."""

from __future__ import annotations

from typing import Any, get_origin

from mangonel import _core
from mangonel._shared.settings import BOUND
from mangonel.bson import encode
from mangonel.odm.connections.connection import connection, connections, overridden
from mangonel.odm.connections.context import current_sessions
from mangonel.odm.connections.identity import current_map
from mangonel.odm.connections.place import default_place
from mangonel.odm.expressions.paths import Path
from mangonel.odm.model.refs import Ref, Refs
from mangonel.odm.query.include import check_reference
from mangonel.odm.query.request import TERMINALS
from mangonel.odm.query.single import LONG_WAY, short_of

# The first value of a row is the document.
AS_ROW: dict[str, Any] = {"$project": {"_id": 0, "d": "$$ROOT"}}


class Join:
    """The facts about a reference that a lookup needs, computed once for each path and model.

    Attributes:
        model: the model with the reference.
        key: the reference's path in the database.
        target: the model that it leads to.
        place: the model's field that is the reference, with the target in the core's form; None for one that is nested,
            or in a list or a map.
        short: the plan's `short` values when `made` was made.
        made: the join in the core's form; None if each query must build its own pipeline.
    """

    __slots__ = ("_path", "_stages", "key", "made", "model", "place", "short", "target")

    def __init__(self, path: Path[Any], model: Any) -> None:
        self.model = model
        self.key = path._key
        self.target = check_reference(path, "lookup")
        self.place: tuple[int, Any] | None = None
        for index, field in enumerate(model.__plan__.fields.values()):
            if field.key == self.key and (get_origin(field.type) or field.type) in (Ref, Refs):
                self.place = (index, self.target.__model__)
        self._path = path
        self._stages: dict[int, dict[str, Any]] = {}
        self.short: Any = None
        self.made: _core.OdmJoin | None = None

    def _has_scope(self) -> bool:
        target = self.target
        return any((target.__default_scope__, target.__tag_value__, target.__tenant__))

    def stage(self, number: int) -> dict[str, Any]:
        """Return the stage that fetches the reference's document, for the lookup with this number in a pipeline."""
        has_scope = self._has_scope()
        if not has_scope and number in self._stages:
            return self._stages[number]
        stage: dict[str, Any] = {
            "from": self.target.__collection_name__(),
            "localField": f"d.{self.key}",
            "foreignField": "_id",
            "as": f"r{number}",
        }
        made = {"$lookup": stage}
        if not has_scope:
            self._stages[number] = made
            return made
        scope = self.target.find().query
        if scope:
            stage["pipeline"] = [{"$match": scope}]
        return made

    def make(self, short: Any) -> _core.OdmJoin | None:
        """Make the join in the core's form, again when class attributes have changed."""
        self.made = None
        if self.place is not None and not self._has_scope():
            stages = encode({"2": AS_ROW, "3": self.stage(0)})[4:-1]
            self.made = _core.OdmJoin(self.model.__model__, [self.place], stages, (self._path,))
        self.short = short
        return self.made


def join_of(path: Path[Any], model: Any) -> Join:
    """Return the join of a path for a model."""
    join: Join | None = path._join
    if join is None or join.model is not model:
        join = path._join = Join(path, model)
    return join


def single_joined(query: Any, condition: Any, is_async: bool, terminal: str) -> Any:
    """Return the document that a query finds, with that of its reference, or a coroutine for it.

    Args:
        query: a query with a `lookup()`.
        condition: its only condition, as a query document.
        is_async: True: use the asyncio client's collection.
        terminal: the name of a terminal for one document.
    """
    if (
        len(query._lookups) != 1
        or query._options
        or query._wish
        or query._includes
        or query._joins
        or query._is_none
        or query._connection is not None
        or query._session is not None
        or query._seconds is not None
        or query._shape is not None
        or query._on_invalid != "raise"
        or type(query._lookups[0]) is not Path
    ):
        return LONG_WAY
    model = query._model
    short = model.__plan__.short or short_of(model)
    join = join_of(query._lookups[0], model)
    made, alias = join.made if join.short is short else join.make(short), short[0]
    if made is None or alias is None or current_sessions() is not None or BOUND or current_map() is not None:
        return LONG_WAY
    # The same as `connection`, inlined to save a frame.
    chosen = connections[alias] if overridden() is None else connection(alias)
    place = chosen._places[is_async].get(model) or default_place(chosen, model, is_async)
    if place.read is None or join.target.__connection__ != chosen.alias:
        return LONG_WAY
    most = TERMINALS[terminal].most
    try:
        operation = _core.odm_lookup(place.read, condition, most, made, chosen, terminal, is_async)
    except Exception:
        # The error from the long way names the place in the whole command.
        return LONG_WAY
    return LONG_WAY if operation is None else place.port.run(operation)
