"""Aggregations of a query's documents: pipelines, sums, means and extremes, on either face. Spec: crud (aggregate)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from decimal import Decimal
from typing import TYPE_CHECKING, Any, TypeVar, overload

from mangonel._arguments import expect
from mangonel.bson import Decimal128
from mangonel.bson.errors import InvalidBSON
from mangonel.odm._registry import is_model
from mangonel.odm._terminal import IS_ASYNC, terminal
from mangonel.odm._twins import QueryAggregatesTwins
from mangonel.odm.errors import ValidationError
from mangonel.odm.expressions.keys import key_of
from mangonel.odm.model.encrypted import declared
from mangonel.odm.model.invalid import located, undecodable
from mangonel.odm.model.shapes import reader, twin
from mangonel.odm.query.columns import QueryColumns
from mangonel.odm.query.joins import leaving_stages, matching_stages, stages_of
from mangonel.odm.query.request import Request
from mangonel.odm.query.tenants import FIRST, restricted
from mangonel.odm.query.typed import load_all, target

if TYPE_CHECKING:
    from typing import Unpack

    from mangonel.odm.query.options import AggregateOptions

__all__ = ["QueryAggregates"]

# Stages that read documents of other models.
_LEADING = frozenset(("$facet", "$graphLookup", "$lookup", "$merge", "$out", "$unionWith"))

T = TypeVar("T")
S = TypeVar("S")


class QueryAggregates(QueryColumns[T], QueryAggregatesTwins[T]):
    """The methods of a query that compute on the server."""

    __slots__ = ()

    @overload
    def aggregate(
        self, pipeline: Iterable[Any], into: None = None, **options: Unpack[AggregateOptions]
    ) -> list[dict[str, Any]]: ...
    @overload
    def aggregate(
        self, pipeline: Iterable[Any], into: type[S], **options: Unpack[AggregateOptions]
    ) -> list[S]: ...
    @terminal
    def aggregate(
        self, pipeline: Iterable[Any], into: Any = None, **options: Unpack[AggregateOptions]
    ) -> list[Any]:
        """Run a pipeline on the matching documents; return dicts, or instances of `into`.

        Args:
            pipeline: the stages after the match.
            into: a model, a dataclass, a TypedDict or another shape.
            options: as for the driver's `aggregate`.

        Example:
            >>> User.find(User.age > 30).aggregate([{"$count": "n"}])
            [{'n': 1}]
        """
        stages = list(expect("pipeline", pipeline, Iterable, "stages"))
        return self._run(IS_ASYNC, "aggregate", self._aggregate_flow, stages, into, options)

    async def _aggregate_flow(
        self, request: Request, pipeline: list[Any], into: Any, options: Any
    ) -> list[Any]:
        if self._is_none:
            return []
        pipeline = restricted(list(pipeline), self._model)
        stages: list[Any] = []
        # These stages must be the first.
        for stage in pipeline:
            expect("pipeline", stage, Mapping, "documents as stages")
        if pipeline and next(iter(pipeline[0])) in FIRST:
            stages.append(pipeline.pop(0))
        stages += matching_stages(request) + stages_of(self._options) + leaving_stages(request)
        if request.terminal.name == "aggregate":
            stages += stages_of(self._options, "projection")
        keywords = {**request.keywords, **options}
        stages += pipeline
        collection = request.collection
        # The marks of another model may not have been evaluated yet.
        if declared or not _LEADING.isdisjoint(name for stage in stages for name in stage):
            from mangonel.odm.encryption.encrypting_port import collection_for

            collection = collection_for(request.connection, self._model, collection, stages)
        cursor = await request.port.call(collection.aggregate, stages, **keywords)
        if into is None:
            try:
                found: list[Any] = await cursor._to_list_flow(None)
            except InvalidBSON as error:
                raise undecodable(error, self._model, request.collection.name) from None
            return found
        documents: list[Any] = []
        read = reader(into, self._model.__tz_aware__, request.connection)
        batch = cursor._batch
        while True:
            if batch is not None and not batch.is_empty:
                try:
                    read(batch, documents, None)
                except ValidationError as error:
                    shape = into if is_model(into) else twin(into, self._model.__tz_aware__)
                    raise located(error, shape, request.collection.name) from None
                except InvalidBSON as error:
                    raise undecodable(error, self._model, request.collection.name) from None
            if not await cursor._fetch_flow():
                return documents
            batch = cursor._batch

    async def _accumulate_flow(self, request: Request, field: Any) -> Any:
        operator = "$" + request.terminal.name
        group = {"$group": {"_id": None, "value": {operator: f"${key_of(field, self._model)}"}}}
        found = await self._aggregate_flow(request, [group], None, {})
        value = found[0]["value"] if found else (self._zero(field) if operator == "$sum" else None)
        if isinstance(value, Decimal128):
            return value.to_decimal()
        if operator in ("$min", "$max"):
            return load_all(field, self._model, [value], request.connection)[0]
        return value

    def _zero(self, field: Any) -> Any:
        """Return the sum of no values, in the field's type."""
        found = target(field, self._model)[1]
        return Decimal(0) if found is not None and found.type is Decimal else 0

    @terminal
    def sum(self, field: S | None) -> S:
        """Return the sum of a field; 0 without documents.

        Args:
            field: a numeric field of the model.

        Example:
            >>> User.find().sum(User.age)
            60
        """
        return self._run(IS_ASYNC, "sum", self._accumulate_flow, field)

    @overload
    def avg(self, field: float | None) -> float | None: ...
    @overload
    def avg(self, field: Decimal) -> Decimal | None: ...
    @terminal
    def avg(self, field: Any) -> Any:
        """Return the mean of a field, or None without documents.

        Args:
            field: a numeric field of the model.

        Example:
            >>> User.find().avg(User.age)
            30.0
        """
        return self._run(IS_ASYNC, "avg", self._accumulate_flow, field)

    @terminal
    def min(self, field: S | None) -> S | None:
        """Return the smallest value of a field, or None without documents.

        Args:
            field: an attribute of the model.

        Example:
            >>> User.find().min(User.age)
            24
        """
        return self._run(IS_ASYNC, "min", self._accumulate_flow, field)

    @terminal
    def max(self, field: S | None) -> S | None:
        """Return the largest value of a field, or None without documents.

        Args:
            field: an attribute of the model.

        Example:
            >>> User.find().max(User.age)
            36
        """
        return self._run(IS_ASYNC, "max", self._accumulate_flow, field)
