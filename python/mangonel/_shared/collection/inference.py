"""Infers the schema of a collection: `_core.TypeCounter` counts the types at each path of the documents.

`mangonel.arrow`, on a higher floor and imported by name, describes the result.
"""

from __future__ import annotations

from mangonel._core import READ_BATCH
from mangonel._light import Generic
from mangonel._shared.base import CommandSource
from mangonel._shared.face_result import FaceResult
from mangonel._shared.replies import cursor_of
from mangonel._shared.upper_modules import upper_module
from mangonel.typings import _DocumentType

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from mangonel import _core
    from mangonel.arrow.inferred import InferredSchema


class CollectionInference(CommandSource, Generic[_DocumentType]):
    """Describes the documents of a collection."""

    _name: str
    _command_cursor_class: type[Any]

    def _as_collection(self) -> Any:
        raise NotImplementedError

    def infer_schema(
        self,
        filter: Mapping[str, Any] | None = None,
        *,
        sample: int | None = None,
        timeout_ms: float | None = None,
    ) -> FaceResult[InferredSchema]:
        """Return the types of the values at every path of the documents, with their counts.

        Reads every matching document once, without making Python objects, and releases the GIL. The result can also
        propose columns and a model, and compare itself with an earlier result.

        Args:
            filter: query document. None: all documents.
            sample: the number of documents to examine, chosen at random by the server. None: all. A sample may miss
                rare fields and types.
            timeout_ms: milliseconds for the whole call, retries included; 0: no limit. None: the usual limit.

        Raises:
            ValueError: `sample` is not a positive number.
            OperationFailure, AutoReconnect: as for `find`.

        Example:
            >>> print(client.shop.orders.infer_schema())
            2 documents
              _id       int
              total     double
              customer  string
        """
        self = self._limited(timeout_ms)
        if sample is not None and (type(sample) is not int or sample < 1):
            raise ValueError(f"expected at least 1 document as sample, got {sample!r}")
        return self._port.flow(self._infer_flow(filter or {}, sample))

    async def _infer_flow(self, filter: Mapping[str, Any], sample: int | None) -> InferredSchema:
        from mangonel._core import TypeCounter

        counter = TypeCounter()
        cursor = await self._sampled_flow(filter, sample)
        try:
            while True:
                batch = cursor._batch
                if batch is not None and not batch.is_empty:
                    counter.add(batch)
                if cursor._id == 0 or not await cursor._fetch_flow():
                    break
        finally:
            await cursor._close_flow()
        inferred = upper_module("mangonel.arrow.inferred").inferred
        return inferred(sample is not None, counter.found(), counter.left_out)

    async def _sampled_flow(self, filter: Mapping[str, Any], sample: int | None) -> Any:
        """Return a cursor over the documents; for a sample it already has its first batch."""
        collection = self._as_collection()
        if sample is None:
            return collection.find(filter, prefetch=True)
        stages: list[Any] = [{"$match": filter}] if filter else []
        command = {
            "aggregate": self._name,
            "pipeline": [*stages, {"$sample": {"size": sample}}],
            "cursor": {},
        }
        batch: _core.Batch = cursor_of(await self._port.arun(self._read_operation(command, READ_BATCH)))
        return self._command_cursor_class(collection, batch, self._codec, 0, None, None, None)
