"""Pipelines built step by step, with fields instead of strings. Knows models only by their names; sends nothing."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Self, TypeAlias

from mangonel._arguments import expect, without_none
from mangonel.odm.expressions.computed import Computed
from mangonel.odm.expressions.expr import Where, query_of
from mangonel.odm.expressions.orders import Order
from mangonel.odm.expressions.paths import Path

Accumulator: TypeAlias = "tuple[str, Any] | str | Mapping[str, Any]"


class Pipeline:
    """An aggregation pipeline for `query.aggregate(pipeline)`. Each method returns a new one with a stage added.

    Fields are attributes of the model; keys that a stage made are strings. An accumulator is a name with its argument,
    such as `("avg", User.age)`, or `"count"`.

    Args:
        stages: the first stages.

    Example:
        >>> ages = Pipeline().group(User.status, people="count", age=("avg", User.age)).sort("-people")
        >>> User.find(User.age > 18).aggregate(ages)
        [{'_id': 'active', 'people': 2, 'age': 30.0}]
    """

    __slots__ = ("_stages",)

    def __init__(self, stages: Iterable[Mapping[str, Any]] = ()) -> None:
        expect("stages", stages, Iterable, "stages")
        self._stages = tuple(dict(expect("stages", stage, Mapping, "documents")) for stage in stages)

    def __iter__(self) -> Iterator[dict[str, Any]]:
        return iter([dict(stage) for stage in self._stages])

    def __len__(self) -> int:
        return len(self._stages)

    def __repr__(self) -> str:
        return f"Pipeline({list(self._stages)!r})"

    def stage(self, stage: Mapping[str, Any]) -> Self:
        """Add a stage in the server's own form.

        Args:
            stage: one document, such as `{"$sample": {"size": 3}}`.

        Example:
            >>> Pipeline().stage({"$indexStats": {}})
            Pipeline([{'$indexStats': {}}])
        """
        return type(self)((*self._stages, stage))

    def match(self, *where: Where) -> Self:
        """Keep only documents that meet all conditions.

        Args:
            where: conditions, or query documents.

        Example:
            >>> Pipeline().match(User.age > 30)
            Pipeline([{'$match': {'age': {'$gt': 30}}}])
        """
        return self.stage({"$match": query_of(*where)})

    def group(self, by: Any = None, **made: Accumulator) -> Self:
        """Group documents; each group becomes one document.

        Args:
            by: the field to group by, several fields in a dict, or None for one group of all documents.
            made: the fields of each group in addition to its `_id`, by key.

        Example:
            >>> Pipeline().group(User.status, oldest=("max", User.age))
            Pipeline([{'$group': {'_id': '$status', 'oldest': {'$max': '$age'}}}])
        """
        return self.stage({"$group": {"_id": _value(by), **_accumulators(made)}})

    def bucket(self, by: Any, boundaries: Iterable[Any], *, default: Any = None, **made: Accumulator) -> Self:
        """Group documents by ranges of a value; each range becomes one document.

        Args:
            by: the field.
            boundaries: the start of each range; the last is the end of the last range.
            default: the `_id` for values outside of all ranges. None: such values are an error.
            made: the fields of each range, by key; by default its `count`.

        Example:
            >>> Pipeline().bucket(User.age, [0, 18, 65], people="count")
            Pipeline([{'$bucket': {'groupBy': '$age', 'boundaries': [0, 18, 65], 'output': {'people': {'$sum': 1}}}}])
        """
        stage: dict[str, Any] = {"groupBy": _value(by), "boundaries": list(boundaries)}
        if default is not None:
            stage["default"] = default
        if made:
            stage["output"] = _accumulators(made)
        return self.stage({"$bucket": stage})

    def unwind(self, field: Any, *, keep_empty: bool = False, index: str | None = None) -> Self:
        """Turn each element of a list into a separate document.

        Args:
            field: the list.
            keep_empty: True: keep documents whose list is empty or missing.
            index: key to store the element's index under.

        Example:
            >>> Pipeline().unwind(User.tags)
            Pipeline([{'$unwind': {'path': '$tags'}}])
        """
        kept = {"preserveNullAndEmptyArrays": True if keep_empty else None, "includeArrayIndex": index}
        return self.stage({"$unwind": {"path": f"${_key(field)}", **without_none(kept)}})

    def project(self, *fields: Any, **made: Any) -> Self:
        """Keep these fields and compute others.

        Args:
            fields: fields to keep; the id is kept too, unless `_id=False`.
            made: by key: a field, or an expression of the server.

        Example:
            >>> Pipeline().project(User.name, years=User.age)
            Pipeline([{'$project': {'name': 1, 'years': '$age'}}])
        """
        kept = {_key(field): 1 for field in fields}
        return self.stage({"$project": {**kept, **{key: _value(value) for key, value in made.items()}}})

    def set(self, **made: Any) -> Self:
        """Set keys, adding those that are missing.

        Args:
            made: by key: a field, or an expression of the server.

        Example:
            >>> Pipeline().set(years=User.age)
            Pipeline([{'$set': {'years': '$age'}}])
        """
        return self.stage({"$set": {key: _value(value) for key, value in made.items()}})

    def sort(self, *orders: Any) -> Self:
        """Sort by fields, or by keys that an earlier stage made.

        Args:
            orders: the most significant one first.

        Example:
            >>> Pipeline().sort("-people", User.name)
            Pipeline([{'$sort': {'people': -1, 'name': 1}}])
        """
        found: dict[str, Any] = {}
        for order in orders:
            if isinstance(order, Order):
                found[_key(order.field)] = order.direction
            elif isinstance(order, str) and order[:1] == "-":
                found[order[1:]] = -1
            else:
                found[_key(order)] = 1
        return self.stage({"$sort": found})

    def skip(self, count: int) -> Self:
        """Skip the first documents.

        Args:
            count: how many to skip.

        Example:
            >>> Pipeline().skip(20)
            Pipeline([{'$skip': 20}])
        """
        return self.stage({"$skip": count})

    def limit(self, count: int) -> Self:
        """Keep at most this many documents.

        Args:
            count: how many to keep.

        Example:
            >>> Pipeline().limit(20)
            Pipeline([{'$limit': 20}])
        """
        return self.stage({"$limit": count})

    def sample(self, size: int) -> Self:
        """Keep a random sample of this size.

        Args:
            size: the number of documents.

        Example:
            >>> Pipeline().sample(20)
            Pipeline([{'$sample': {'size': 20}}])
        """
        return self.stage({"$sample": {"size": size}})

    def count(self, key: str = "count") -> Self:
        """Replace the documents by one that holds their count; without documents there is none.

        Args:
            key: the key of the number.

        Example:
            >>> User.find().aggregate(Pipeline().count())
            [{'count': 2}]
        """
        return self.stage({"$count": key})

    def lookup(self, model: Any, local: Any, foreign: Any, into: str, *, pipeline: Any = ()) -> Self:
        """Store the matching documents of another model under a key, as a list.

        Args:
            model: the other document class, of the same database.
            local: the field of this model.
            foreign: the field of the other model; "_id" for the id.
            into: the key of the list.
            pipeline: stages for the matching documents.

        Example:
            >>> Pipeline().lookup(Post, User.id, Post.author, "posts")
            Pipeline([{'$lookup': {'from': 'post', 'localField': '_id', 'foreignField': 'author', 'as': 'posts'}}])
        """
        stage: dict[str, Any] = {
            "from": model.__collection_name__(),
            "localField": _key(local),
            "foreignField": _key(foreign),
            "as": into,
        }
        if stages := list(pipeline):
            stage["pipeline"] = stages
        return self.stage({"$lookup": stage})

    def union(self, model: Any, pipeline: Any = ()) -> Self:
        """Add the documents of another model.

        Args:
            model: the other document class, of the same database.
            pipeline: stages for those documents.

        Example:
            >>> Pipeline().union(Post)
            Pipeline([{'$unionWith': {'coll': 'post', 'pipeline': []}}])
        """
        return self.stage({"$unionWith": {"coll": model.__collection_name__(), "pipeline": list(pipeline)}})

    def facet(self, **pipelines: Iterable[Mapping[str, Any]]) -> Self:
        """Replace the documents by one that holds the results of several pipelines.

        Args:
            pipelines: by key.

        Example:
            >>> Pipeline().facet(total=Pipeline().count())
            Pipeline([{'$facet': {'total': [{'$count': 'count'}]}}])
        """
        return self.stage({"$facet": {key: list(stages) for key, stages in pipelines.items()}})

    def search(self, index: str | None = None, **operators: Any) -> Self:
        """Search with a search index of Atlas. Must be the first stage.

        Args:
            index: name of the index. None: "default".
            operators: operators of `$search`, such as `text={"query": "tea", "path": "title"}`. A `path` may be a
                field.

        Raises:
            TypeError: there is no operator.
            ValueError: it would not be the first stage.

        Example:
            >>> Pipeline().search(text={"query": "tea", "path": Post.title})
            Pipeline([{'$search': {'text': {'query': 'tea', 'path': 'title'}}}])
        """
        if not operators:
            raise TypeError("expected an operator of search(), such as text={...}, got none")
        self._check_first("search")
        stage: dict[str, Any] = {} if index is None else {"index": index}
        return self.stage({"$search": {**stage, **_keys(operators)}})

    def _check_first(self, name: str) -> None:
        if self._stages:
            raise ValueError(f"expected {name}() to be the first stage, got {len(self._stages)} before it")

    def vector_search(
        self,
        field: Any,
        vector: Any,
        limit: int,
        *,
        index: str | None = None,
        candidates: int | None = None,
        where: Where | None = None,
        score: str | None = None,
    ) -> Self:
        """Find the nearest vectors with a vector index of Atlas. Must be the first stage.

        Args:
            field: the field with the vectors.
            vector: the query vector: numbers, or a Binary vector.
            limit: how many documents to return.
            index: name of the index. None: the one that the field's `Vector` names.
            candidates: how many vectors to examine. None: all, which is exact and slow.
            where: a condition on fields that the index has as filters.
            score: key to store the similarity under.

        Raises:
            TypeError: neither the argument nor the field names an index.
            ValueError: it would not be the first stage; the vector's length is not the field's; `limit` is less than 1
                or more than `candidates`.

        Example:
            >>> Pipeline().vector_search("embedding", [0.1, 0.2], 3, index="vectors")
            Pipeline([{'$vectorSearch': {'index': 'vectors', 'path': 'embedding', 'queryVector': [0.1, 0.2], ...}}])
        """
        self._check_first("vector_search")
        declared = _vector_of(field)
        if index is None:
            if declared is None:
                raise TypeError(f"expected the index that has the vectors of {field!r}, got none")
            index = declared.index
        asked = vector if isinstance(vector, bytes) else list(vector)
        if declared is not None and isinstance(asked, list) and len(asked) != declared.max_length:
            raise ValueError(f"expected {declared.max_length} numbers, as {field!r} has, got {len(asked)}")
        if limit < 1 or (candidates is not None and candidates < limit):
            raise ValueError(
                f"expected a limit from 1 on, and no more than candidates, got {limit} and {candidates}"
            )
        stage: dict[str, Any] = {
            "index": index,
            "path": _key(field),
            "queryVector": asked,
            "limit": limit,
        }
        stage |= {"exact": True} if candidates is None else {"numCandidates": candidates}
        if where is not None:
            stage["filter"] = query_of(where)
        made = self.stage({"$vectorSearch": stage})
        return made if score is None else made.stage({"$set": {score: {"$meta": "vectorSearchScore"}}})


def _vector_of(field: Any) -> Any:
    """Return the `Vector` that a field declares, or None for a key or another field."""
    found = field._field() if isinstance(field, Path) else None
    metadata = () if found is None else found.metadata
    # Recognised by its attributes: the class is on a higher floor.
    return next((item for item in metadata if hasattr(item, "similarity")), None)


def _key(field: Any) -> str:
    """Return a field's key; a string is a key already."""
    if isinstance(field, Path):
        return field._key
    if isinstance(field, str):
        return field
    raise TypeError(f"expected a field or a key, got {field!r}")


def _value(value: Any) -> Any:
    """Return an expression of the server, with its fields written out."""
    if isinstance(value, Path):
        return f"${value._key}"
    if isinstance(value, Computed):
        return value.expression
    if isinstance(value, Mapping):
        return {key: _value(inner) for key, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [_value(inner) for inner in value]
    return value


def _keys(value: Any) -> Any:
    """Return options of a search, with its fields as keys."""
    if isinstance(value, Path):
        return value._key
    if isinstance(value, Mapping):
        return {key: _keys(inner) for key, inner in value.items()}
    return [_keys(inner) for inner in value] if isinstance(value, (list, tuple)) else value


def _accumulators(made: Mapping[str, Accumulator]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, what in made.items():
        if what == "count":
            found[key] = {"$sum": 1}
        elif isinstance(what, tuple) and len(what) == 2 and isinstance(what[0], str):
            found[key] = {f"${what[0].lstrip('$')}": _value(what[1])}
        elif isinstance(what, Mapping):
            found[key] = _value(what)
        else:
            raise TypeError(
                f'expected an accumulator for {key!r}, such as ("avg", User.age) or "count", got {what!r}'
            )
    return found
