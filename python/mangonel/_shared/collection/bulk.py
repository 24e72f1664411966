"""A collection's bulk_write: orders the models into runs of equal commands. Spec: crud (bulk write)."""

from __future__ import annotations

from mangonel._light import Generic
from mangonel._shared.collection.write_support import (
    FEW_WRITES,
    TROUBLES,
    UNTOLD,
    WritingSource,
    operation_alone,
)
from mangonel._shared.face_result import FaceResult
from mangonel.common import validate_is_document_type, validate_list
from mangonel.errors import InvalidOperation
from mangonel.results import BulkWriteResult
from mangonel.typings import _DocumentType

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    from mangonel._shared.collection.bulk_run import BulkRunner, Run
    from mangonel._shared.sessions.session import _ClientSession


class CollectionBulkWrite(WritingSource, Generic[_DocumentType]):
    """Writes of several kinds in one call."""

    def bulk_write(
        self,
        requests: Sequence[Any],
        ordered: bool = True,
        bypass_document_validation: bool | None = None,
        session: _ClientSession | None = None,
        comment: Any | None = None,
        let: Mapping[str, Any] | None = None,
        *,
        timeout_ms: float | None = None,
    ) -> FaceResult[BulkWriteResult]:
        """Run many writes in as few commands as their order and the server's limits allow.

        Args:
            requests: a list of InsertOne, UpdateOne, UpdateMany, ReplaceOne, DeleteOne and DeleteMany.
            ordered: run them in the given order and stop at the first that fails. False: run all inserts, then all
                updates, then all deletes, and try all of them.
            bypass_document_validation: store documents even if they violate the collection's validator.
            session: run in this session; it must come from the same client.
            comment: shown in the server's logs and profile.
            let: variables for expressions of updates and deletes, as `$$name`.
            timeout_ms: milliseconds for the whole call, retries included; 0: no limit. None: the usual limit.

        Raises:
            BulkWriteError: some writes failed, or were not confirmed; `details` has the counts, and the errors with
                the index of each write.
            InvalidOperation: there are no writes. Nothing was sent.
            ConfigurationError: an option that unacknowledged writes cannot have. Nothing was written.
            TypeError, ValueError: an element is not a write, or has a wrong argument. Nothing was sent.
            AutoReconnect: the connection broke. Some writes may have been done; commands without UpdateMany and
                DeleteMany are retried with `retryWrites`.

        Example:
            >>> client.shop.orders.bulk_write([InsertOne({"_id": 1}), DeleteMany({"paid": True})]).inserted_count
            1
        """
        if timeout_ms is not None:
            self = self._limited(timeout_ms)
        if type(requests) is not list:
            validate_list("requests", requests)
        if let is not None:
            validate_is_document_type("let", let)
        runs = self._bulk_runner.runs_of(requests, ordered)
        if not runs:
            raise InvalidOperation("No operations to execute")
        if (
            session is None
            and bypass_document_validation is None
            and comment is None
            and let is None
            and len(runs) == 1
            and len(requests) <= FEW_WRITES
            and self._sends_alone()
        ):
            return self._port.flow(_few_writes_flow(self, runs, ordered))
        runner = self._bulk_runner(
            self,
            ordered=ordered,
            bypass_document_validation=bypass_document_validation,
            comment=comment,
            let=let,
            session=session,
        )
        return self._port.flow(_bulk_write_flow(runner, runs))


async def _few_writes_flow(collection: WritingSource, runs: list[Run], ordered: bool) -> BulkWriteResult:
    run, told, runner_class = runs[0], UNTOLD, collection._bulk_runner
    limits = collection._client._core.limits()
    try:
        made = operation_alone(collection, limits, run.command, run.writes, ordered, run.is_retryable)
        if made is not None:
            # The collection's port, which may have a limit of its own, runs the whole flow.
            told = await collection._client._port.arun(made[0])
            if "n" in told and TROUBLES.isdisjoint(told):
                return BulkWriteResult(runner_class.result_of(run, told), True)
    except BaseException as error:
        told = error
    try:
        runner = runner_class(collection, ordered=ordered)
        result = await runner.run_flow(runs, first=run.command, limits=limits, told=told)
        return BulkWriteResult({} if result is None else result, result is not None)
    finally:
        # The traceback of an exception holds this frame.
        told = UNTOLD


async def _bulk_write_flow(runner: BulkRunner, runs: list[Run]) -> BulkWriteResult:
    result = await runner.run_flow(runs, first=runs[0].command)
    return BulkWriteResult({}, False) if result is None else BulkWriteResult(result, True)
