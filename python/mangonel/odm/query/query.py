"""Queries: immutable, lazy, readable on either face. Spec: crud, find-getmore-killcursors-commands.

`for`, `async for` and `await` read a query, as do its methods; each method that waits exists as `x()` and `ax()`, which
run the same flow. `builder` builds queries; `request` passes them to the driver.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, TypeVar

from mangonel._arguments import told_by_public_name
from mangonel.odm.query.aggregates import QueryAggregates
from mangonel.odm.query.request import TERMINALS, check_options, unsupported
from mangonel.odm.query.watch import Changes
from mangonel.odm.query.writes import QueryWrites

if TYPE_CHECKING:
    from typing import Unpack

    from mangonel.odm.query.options import WatchOptions

__all__ = ["EMPTY", "Query"]

T = TypeVar("T")
S = TypeVar("S")


@told_by_public_name
class Query(QueryWrites[T], QueryAggregates[T]):
    """A query for the documents of a model that meet conditions. Immutable; nothing is sent until it is read.

    Example:
        >>> young = User.find(User.age < 30)
        >>> young.sort("-age").limit(10).all()
        []
        >>> await young.acount()
        0
    """

    __slots__ = ()

    def as_(self, shape: type[S]) -> Query[S]:
        """Read the documents into another shape, loading only its fields: an `Embedded`, a dataclass, a
        `msgspec.Struct`, a `TypedDict` or a pydantic model."""
        made: Any = self._copy()
        made._shape = shape
        made._project()
        return made

    def watch(
        self,
        pipeline: Iterable[Any] = (),
        *,
        full_document: str | None = "updateLookup",
        **options: Unpack[WatchOptions],
    ) -> Changes[T]:
        """Return a change stream of the model's documents, for either face. It opens when it is first read.

        Args:
            pipeline: stages that filter the changes.
            full_document: which document to add to update events. None: none.
            options: as for the driver's `watch`: `resume_after`, `max_await_time_ms`, ….

        Raises:
            UnsupportedOption: the query has conditions or limits: changes that make a document stop matching could not
                be reported.

        Example:
            >>> changes = Order.unscoped().using("archive").watch()
        """
        if self._where or self._is_none:
            raise unsupported("watch", "where")
        check_options(self, TERMINALS["watch"])
        return Changes(self, pipeline, {"full_document": full_document, **options})


EMPTY: Query[Any] = Query(None)
"""A query without a model and conditions, to be copied."""
